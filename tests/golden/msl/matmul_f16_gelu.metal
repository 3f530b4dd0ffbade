// matmul_gelu_kernel(a: ptr<f16>, b: ptr<f16>, bias: ptr<f16>, c: ptr<f16>, M: i32, N: i32, K: i32)
// One threadgroup of 128 threads per program; safe math, apple7.
#include <metal_stdlib>
using namespace metal;
#pragma METAL fp contract(off)

struct matmul_gelu_kernel_args {
    int M;
    int N;
    int K;
};

[[max_total_threads_per_threadgroup(128)]]
kernel void matmul_gelu_kernel(
    device const half *a [[buffer(0)]],
    device const half *b [[buffer(1)]],
    device const half *bias [[buffer(2)]],
    device half *__restrict c [[buffer(3)]],
    constant matmul_gelu_kernel_args &args [[buffer(4)]],
    uint3 gid [[threadgroup_position_in_grid]],
    uint tid [[thread_index_in_threadgroup]],
    uint sgid [[simdgroup_index_in_threadgroup]]) {
    simdgroup_float8x8 acc[16];
    alignas(16) threadgroup half left[2560];
    alignas(16) threadgroup half right[2304];
    int sg_id = int(sgid);
    int left_corner = (sg_id >> 1) * 1280;
    int right_corner = (sg_id & 1) * 32;
    threadgroup float shared[64];
    int t = int(tid);
    int product = int(gid.y) * 64;
    int product_1 = int(gid.x) * 64;
#pragma unroll
    for (int i = 0; i < 16; ++i) {
        acc[i] = make_filled_simdgroup_matrix<float, 8, 8>(0.0f);
    }
    for (int first = 0; first < args.K; first = addsat(first, 32)) {
        int high = t >> 3;
        int column = (t & 7) * 4;
        threadgroup_barrier(mem_flags::mem_threadgroup);
#pragma unroll
        for (int r = 0; r < 16; r += 4) {
            int row = high + (r >> 2) * 16;
            int rows = product + row;
            int inner = first + column;
            half4 left_1 = rows < args.M && inner < args.K ? *(device const half4 *)(a + (rows * args.K + inner)) : half4(half(0.0f));
            *(threadgroup half4 *)(left + (row * 40 + column)) = left_1;
        }
        int high_1 = t >> 4;
        int column_1 = (t & 15) * 4;
#pragma unroll
        for (int r_1 = 0; r_1 < 16; r_1 += 4) {
            int row_1 = high_1 + (r_1 >> 2) * 8;
            int inner_1 = first + row_1;
            int cols = product_1 + column_1;
            half4 right_1 = inner_1 < args.K && cols < args.N ? *(device const half4 *)(b + (inner_1 * args.N + cols)) : half4(half(0.0f));
            *(threadgroup half4 *)(right + (row_1 * 72 + column_1)) = right_1;
        }
        threadgroup_barrier(mem_flags::mem_threadgroup);
#pragma unroll
        for (int k = 0; k < 32; k += 8) {
            simdgroup_half8x8 left_tile[4];
            simdgroup_half8x8 right_tile[4];
#pragma unroll
            for (int i = 0; i < 4; ++i) {
                simdgroup_load(left_tile[i], left + left_corner + i * 8 * 40 + k, 40);
            }
#pragma unroll
            for (int j = 0; j < 4; ++j) {
                simdgroup_load(right_tile[j], right + right_corner + k * 72 + j * 8, 72);
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
    int at = t & 63;
    int cols_1 = product_1 + at;
    float converted = float(cols_1 < args.N ? bias[cols_1] : half(0.0f));
    if (t < 64) {
        shared[at] = converted;
    }
    int sum = (t >> 1 & 3) + (t >> 4 & 1) * 4 + (t >> 6) * 32;
    int sum_1 = (t & 1) * 2 + (t >> 3 & 1) * 4 + (t >> 5 & 1) * 32;
    threadgroup_barrier(mem_flags::mem_threadgroup);
#pragma unroll
    for (int r_2 = 0; r_2 < 32; ++r_2) {
        int row_2 = sum + (r_2 >> 3) * 8;
        int column_2 = sum_1 + ((r_2 & 1) + (r_2 >> 1 & 3) * 8);
        float acc_1 = acc[r_2 / 2].thread_elements()[r_2 % 2];
        float z = acc_1 + shared[column_2];
        float z_1 = 0.5f * z * (1.0f + precise::tanh(0.7978846f * (z + 0.044715f * z * z * z)));
        int rows_1 = product + row_2;
        int cols_2 = product_1 + column_2;
        if (rows_1 < args.M && cols_2 < args.N) c[rows_1 * args.N + cols_2] = half(z_1);
    }
}
