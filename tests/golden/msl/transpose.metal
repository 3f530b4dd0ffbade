// transpose_kernel(x: ptr<f32>, y: ptr<f32>, M: i32, N: i32)
// One threadgroup of 256 threads per program; safe math, apple7.
#include <metal_stdlib>
using namespace metal;
#pragma METAL fp contract(off)

struct transpose_kernel_args {
    int M;
    int N;
};

[[max_total_threads_per_threadgroup(256)]]
kernel void transpose_kernel(
    device const float *x [[buffer(0)]],
    device float *__restrict y [[buffer(1)]],
    constant transpose_kernel_args &args [[buffer(2)]],
    uint3 gid [[threadgroup_position_in_grid]],
    uint tid [[thread_index_in_threadgroup]]) {
    alignas(16) threadgroup float values[1056];
    int t = int(tid);
    int start_y = int(gid.y) * 32;
    int start_x = int(gid.x) * 32;
    int first_row = t >> 3;
    int low = t & 7;
    int first_column = low * 4;
    int rows = start_y + first_row;
    int cols = start_x + first_column;
    float4 values_1 = rows < args.M && cols < args.N ? *(device const float4 *)(x + (rows * args.N + cols)) : float4(0.0f);
    *(threadgroup packed_float4 *)(values + (first_row * 33 + first_column)) = packed_float4(values_1);
    threadgroup_barrier(mem_flags::mem_threadgroup);
    int cols_1 = start_x + first_row;
    int rows_1 = start_y + first_column;
    float4 values_2 = float4(values[low * 132 + first_row], values[low * 132 + first_row + 33], values[low * 132 + first_row + 66], values[low * 132 + first_row + 99]);
    if (cols_1 < args.N && rows_1 < args.M) *(device float4 *)(y + (cols_1 * args.M + rows_1)) = values_2;
}
