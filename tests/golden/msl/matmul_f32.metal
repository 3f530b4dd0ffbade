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

inline thread float2 &eas_elements(thread simdgroup_float8x8 &matrix) {
    return reinterpret_cast<thread float2 &>(matrix.thread_elements());
}

[[max_total_threads_per_threadgroup(128)]]
kernel void matmul_kernel(
    device const float *a [[buffer(0)]],
    device const float *b [[buffer(1)]],
    device float *__restrict c [[buffer(2)]],
    constant matmul_kernel_args &args [[buffer(3)]],
    uint3 gid [[threadgroup_position_in_grid]],
    uint tid [[thread_index_in_threadgroup]],
    uint sgid [[simdgroup_index_in_threadgroup]]) {
    alignas(16) threadgroup float left[1280];
    alignas(16) threadgroup float right[1088];
    int sg_id = int(sgid);
    int left_corner = (sg_id >> 1) * 640;
    int right_corner = (sg_id & 1) * 32;
    int t = int(tid);
    int start_y = int(gid.y) * 64;
    int start_x = int(gid.x) * 64;
    simdgroup_float8x8 acc[16];
#pragma unroll
    for (int i = 0; i < 16; ++i) {
        acc[i] = make_filled_simdgroup_matrix<float, 8, 8>(0.0f);
    }
    int first_row = t >> 2;
    int first_column = (t & 3) * 4;
    int first_row_1 = t >> 4;
    int first_column_1 = (t & 15) * 4;
    for (int first = 0; first < args.K; first += 16) {
        threadgroup_barrier(mem_flags::mem_threadgroup);
#pragma unroll
        for (int r = 0; r < 8; r += 4) {
            int row = first_row + r * 8;
            int rows = start_y + row;
            int inner = first + first_column;
            float4 left_1 = rows < args.M ? *(device const float4 *)(a + (rows * args.K + inner)) : float4(0.0f);
            *(threadgroup float4 *)(left + (row * 20 + first_column)) = left_1;
        }
#pragma unroll
        for (int r = 0; r < 8; r += 4) {
            int row = first_row_1 + r * 2;
            int cols = start_x + first_column_1;
            int inner = first + row;
            float4 right_1 = cols < args.N ? *(device const float4 *)(b + (inner * args.N + cols)) : float4(0.0f);
            *(threadgroup float4 *)(right + (row * 68 + first_column_1)) = right_1;
        }
        threadgroup_barrier(mem_flags::mem_threadgroup);
#pragma unroll
        for (int k = 0; k < 16; k += 8) {
            simdgroup_float8x8 left_tile[4];
            simdgroup_float8x8 right_tile[4];
#pragma unroll
            for (int i = 0; i < 4; ++i) {
                simdgroup_load(left_tile[i], left + left_corner + i * 160 + k, 20);
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
    int first_row_2 = (t >> 1 & 3) + (first_row_1 & 1) * 4 + (t >> 6) * 32;
    int first_column_2 = (t & 1) * 2 + (t >> 3 & 1) * 4 + (t >> 5 & 1) * 32;
#pragma unroll
    for (int r = 0; r < 32; r += 2) {
        int row = first_row_2 + (r >> 3) * 8;
        int column = first_column_2 + (r >> 1 & 3) * 8;
        int rows = start_y + row;
        int cols = start_x + column;
        float2 acc_1 = eas_elements(acc[r / 2]);
        if (rows < args.M && cols < args.N) *(device float2 *)(c + (rows * args.N + cols)) = acc_1;
    }
}
