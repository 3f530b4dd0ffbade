// matmul_whole_kernel(a: ptr<f16>, b: ptr<f16>, c: ptr<f16>, N: i32, K: i32)
// One threadgroup of 128 threads per program; safe math, apple7.
#include <metal_stdlib>
using namespace metal;
#pragma METAL fp contract(off)

struct matmul_whole_kernel_args {
    int N;
    int K;
};

inline thread float2 &eas_elements(thread simdgroup_float8x8 &matrix) {
    return reinterpret_cast<thread float2 &>(matrix.thread_elements());
}

[[max_total_threads_per_threadgroup(128)]]
kernel void matmul_whole_kernel(
    device const half *a [[buffer(0)]],
    device const half *b [[buffer(1)]],
    device half *__restrict c [[buffer(2)]],
    constant matmul_whole_kernel_args &args [[buffer(3)]],
    uint3 gid [[threadgroup_position_in_grid]],
    uint tid [[thread_index_in_threadgroup]],
    uint sgid [[simdgroup_index_in_threadgroup]]) {
    int sg_id = int(sgid);
    int left_corner = (sg_id >> 1) * 32;
    int right_corner = (sg_id & 1) * 32;
    int t = int(tid);
    int start_y = int(gid.y) * 64;
    int start_x = int(gid.x) * 64;
    simdgroup_float8x8 acc[16];
#pragma unroll
    for (int i = 0; i < 16; ++i) {
        acc[i] = make_filled_simdgroup_matrix<float, 8, 8>(0.0f);
    }
    int rows = start_y + left_corner;
    int product = rows * args.K;
    int cols = start_x + right_corner;
    for (int first = 0; first < args.K; first = addsat(first, 32)) {
        device const half *a_corner = a + (product + first);
        device const half *b_corner = b + (first * args.N + cols);
#pragma unroll
        for (int k = 0; k < 32; k += 8) {
            simdgroup_half8x8 a_tile[4];
            simdgroup_half8x8 b_tile[4];
#pragma unroll
            for (int i = 0; i < 4; ++i) {
                simdgroup_load(a_tile[i], a_corner + i * 8 * args.K + k, ulong(args.K));
            }
#pragma unroll
            for (int j = 0; j < 4; ++j) {
                simdgroup_load(b_tile[j], b_corner + k * args.N + j * 8, ulong(args.N));
            }
#pragma unroll
            for (int i = 0; i < 4; ++i) {
#pragma unroll
                for (int j = 0; j < 4; ++j) {
                    simdgroup_multiply_accumulate(acc[i * 4 + j], a_tile[i], b_tile[j], acc[i * 4 + j]);
                }
            }
        }
    }
    int first_row = (t >> 1 & 3) + (t >> 4 & 1) * 4 + (t >> 6) * 32;
    int first_column = (t & 1) * 2 + (t >> 3 & 1) * 4 + (t >> 5 & 1) * 32;
#pragma unroll
    for (int r = 0; r < 32; r += 2) {
        int row = first_row + (r >> 3) * 8;
        int column = first_column + (r >> 1 & 3) * 8;
        float2 acc_1 = eas_elements(acc[r / 2]);
        int rows_1 = start_y + row;
        int cols_1 = start_x + column;
        *(device half2 *)(c + (rows_1 * args.N + cols_1)) = half2(acc_1);
    }
}
