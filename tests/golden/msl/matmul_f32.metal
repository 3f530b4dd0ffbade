// matmul_kernel(a: ptr<f32>, b: ptr<f32>, c: ptr<f32>, M: i32, N: i32, K: i32)
// One threadgroup of 128 threads per program; safe math, apple7.
#include <metal_stdlib>
using namespace metal;
#pragma METAL fp contract(off)

struct matmul_kernel_args {
    int M;
    int N;
    int K;
};

[[max_total_threads_per_threadgroup(128)]]
kernel void matmul_kernel(
    device const float *a [[buffer(0)]],
    device const float *b [[buffer(1)]],
    device float *__restrict c [[buffer(2)]],
    constant matmul_kernel_args &args [[buffer(3)]],
    uint3 gid [[threadgroup_position_in_grid]],
    uint tid [[thread_index_in_threadgroup]],
    uint sgid [[simdgroup_index_in_threadgroup]]) {
    simdgroup_float8x8 acc[16];
    alignas(16) threadgroup float left[1280];
    alignas(16) threadgroup float right[1088];
    int sg_id = int(sgid);
    int left_corner = (sg_id >> 1) * 640;
    int right_corner = (sg_id & 1) * 32;
    int t = int(tid);
    int product = int(gid.y) * 64;
    int product_1 = int(gid.x) * 64;
#pragma unroll
    for (int i = 0; i < 16; ++i) {
        acc[i] = make_filled_simdgroup_matrix<float, 8, 8>(0.0f);
    }
    for (int first = 0; first < args.K; first += 16) {
        int high = t >> 2;
        int column = (t & 3) * 4;
        threadgroup_barrier(mem_flags::mem_threadgroup);
#pragma unroll
        for (int r = 0; r < 8; r += 4) {
            int row = high + (r >> 2) * 32;
            int rows = product + row;
            int inner = first + column;
            float4 left_1 = rows < args.M ? *(device const float4 *)(a + (rows * args.K + inner)) : float4(0.0f);
            *(threadgroup float4 *)(left + (row * 20 + column)) = left_1;
        }
        int high_1 = t >> 4;
        int column_1 = (t & 15) * 4;
#pragma unroll
        for (int r_1 = 0; r_1 < 8; r_1 += 4) {
            int row_1 = high_1 + (r_1 >> 2) * 8;
            int cols = product_1 + column_1;
            int inner_1 = first + row_1;
            float4 right_1 = cols < args.N ? *(device const float4 *)(b + (inner_1 * args.N + cols)) : float4(0.0f);
            *(threadgroup float4 *)(right + (row_1 * 68 + column_1)) = right_1;
        }
        threadgroup_barrier(mem_flags::mem_threadgroup);
#pragma unroll
        for (int k = 0; k < 16; k += 8) {
            simdgroup_float8x8 left_tile[4];
            simdgroup_float8x8 right_tile[4];
#pragma unroll
            for (int i = 0; i < 4; ++i) {
                simdgroup_load(left_tile[i], left + left_corner + i * 8 * 20 + k, 20);
            }
#pragma unroll
            for (int j = 0; j < 4; ++j) {
                simdgroup_load(right_tile[j], right + right_corner + k * 68 + j * 8, 68);
            }
#pragma unroll
            for (int i = 0; i < 4; ++i) {
#pragma unroll
                for (int j = 0; j < 4; ++j) {
                    simdgroup_multiply_accumulate(acc[i * 4 + j], left_tile[i], right_tile[j], acc[i * 4 + j]);
                }
            }
        }
    }
    int sum = (t >> 1 & 3) + (t >> 4 & 1) * 4 + (t >> 6) * 32;
    int sum_1 = (t & 1) * 2 + (t >> 3 & 1) * 4 + (t >> 5 & 1) * 32;
#pragma unroll
    for (int r_2 = 0; r_2 < 32; ++r_2) {
        int row_2 = sum + (r_2 >> 3) * 8;
        int column_2 = sum_1 + ((r_2 & 1) + (r_2 >> 1 & 3) * 8);
        int rows_1 = product + row_2;
        int cols_1 = product_1 + column_2;
        float acc_1 = acc[r_2 / 2].thread_elements()[r_2 % 2];
        if (rows_1 < args.M && cols_1 < args.N) c[rows_1 * args.N + cols_1] = acc_1;
    }
}
