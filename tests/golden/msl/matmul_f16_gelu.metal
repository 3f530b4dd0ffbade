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

inline thread float2 &eas_elements(thread simdgroup_float8x8 &matrix) {
    return reinterpret_cast<thread float2 &>(matrix.thread_elements());
}

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
    alignas(16) threadgroup half left[2560];
    alignas(16) threadgroup half right[2304];
    int sg_id = int(sgid);
    int left_corner = (sg_id >> 1) * 1280;
    int right_corner = (sg_id & 1) * 32;
    int t = int(tid);
    int start_y = int(gid.y) * 64;
    int start_x = int(gid.x) * 64;
    simdgroup_float8x8 acc[16];
#pragma unroll
    for (int i = 0; i < 16; ++i) {
        acc[i] = make_filled_simdgroup_matrix<float, 8, 8>(0.0f);
    }
    int first_row = t >> 3;
    int first_column = (t & 7) * 4;
    int first_row_1 = t >> 4;
    int first_column_1 = (t & 15) * 4;
    for (int first = 0; first < args.K; first = addsat(first, 32)) {
        threadgroup_barrier(mem_flags::mem_threadgroup);
#pragma unroll
        for (int r = 0; r < 16; r += 4) {
            int row = first_row + r * 4;
            int rows = start_y + row;
            int inner = first + first_column;
            half4 left_1 = rows < args.M && inner < args.K ? *(device const half4 *)(a + (rows * args.K + inner)) : half4(0.0h);
            *(threadgroup half4 *)(left + (row * 40 + first_column)) = left_1;
        }
#pragma unroll
        for (int r = 0; r < 16; r += 4) {
            int row = first_row_1 + r * 2;
            int inner = first + row;
            int cols = start_x + first_column_1;
            half4 right_1 = inner < args.K && cols < args.N ? *(device const half4 *)(b + (inner * args.N + cols)) : half4(0.0h);
            *(threadgroup half4 *)(right + (row * 72 + first_column_1)) = right_1;
        }
        threadgroup_barrier(mem_flags::mem_threadgroup);
#pragma unroll
        for (int k = 0; k < 32; k += 8) {
            simdgroup_half8x8 left_tile[4];
            simdgroup_half8x8 right_tile[4];
#pragma unroll
            for (int i = 0; i < 4; ++i) {
                simdgroup_load(left_tile[i], left + left_corner + i * 320 + k, 40);
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
    int first_row_2 = (t >> 1 & 3) + (first_row_1 & 1) * 4 + (t >> 6) * 32;
    int first_column_2 = (t & 1) * 2 + (first_row & 1) * 4 + (t >> 5 & 1) * 32;
#pragma unroll
    for (int r = 0; r < 32; r += 2) {
        int row = first_row_2 + (r >> 3) * 8;
        int column = first_column_2 + (r >> 1 & 3) * 8;
        float2 acc_1 = eas_elements(acc[r / 2]);
        int cols = start_x + column;
        float2 z = acc_1 + float2(cols < args.N ? *(device const half2 *)(bias + cols) : half2(0.0h));
        float2 z_1 = 0.5f * z * (1.0f + precise::tanh(0.7978846f * (z + 0.044715f * z * z * z)));
        int rows = start_y + row;
        if (rows < args.M && cols < args.N) *(device half2 *)(c + (rows * args.N + cols)) = half2(z_1);
    }
}
