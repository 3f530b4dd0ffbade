// attention_kernel(q: ptr<f16>, k: ptr<f16>, v: ptr<f16>, out: ptr<f16>, n: i32, n_keys: i32, scale: f32)
// One threadgroup of 128 threads per program; safe math, apple7.
#include <metal_stdlib>
using namespace metal;
#pragma METAL fp contract(off)

struct attention_kernel_args {
    int n;
    int n_keys;
    float scale;
};

inline thread float2 &eas_elements(thread simdgroup_float8x8 &matrix) {
    return reinterpret_cast<thread float2 &>(matrix.thread_elements());
}

inline float eas_nan_max(float a, float b) {
    return isnan(a) || a > b ? a : b;
}

inline float2 eas_nan_max(float2 a, float2 b) {
    return float2(eas_nan_max(a.x, b.x), eas_nan_max(a.y, b.y));
}

inline thread half2 &eas_elements(thread simdgroup_half8x8 &matrix) {
    return reinterpret_cast<thread half2 &>(matrix.thread_elements());
}

[[max_total_threads_per_threadgroup(128)]]
kernel void attention_kernel(
    device const half *q [[buffer(0)]],
    device const half *k [[buffer(1)]],
    device const half *v [[buffer(2)]],
    device half *__restrict out [[buffer(3)]],
    constant attention_kernel_args &args [[buffer(4)]],
    uint3 gid [[threadgroup_position_in_grid]],
    uint tid [[thread_index_in_threadgroup]],
    uint sgid [[simdgroup_index_in_threadgroup]]) {
    alignas(16) threadgroup half queries[2304];
    alignas(16) threadgroup half keys[2304];
    alignas(16) threadgroup float start[32];
    alignas(16) threadgroup half values[2304];
    int queries_corner = int(sgid) * 576;
    int t = int(tid);
    int program_id = int(gid.x);
    int start_x = program_id * 32;
    int program_id_1 = int(gid.y);
    int product = program_id_1 * args.n * 64;
    int keys_start = program_id_1 * args.n_keys * 64;
    int end = min((program_id + 1) * 32, args.n_keys);
    int first_row = t >> 4;
    int first_column = (t & 15) * 4;
#pragma unroll
    for (int r = 0; r < 16; r += 4) {
        int row = first_row + r * 2;
        int rows = start_x + row;
        int mine = product + rows * 64 + first_column;
        half4 queries_1 = half4(float4(rows < args.n ? *(device const half4 *)(q + mine) : half4(0.0h)) * args.scale);
        *(threadgroup half4 *)(queries + (row * 72 + first_column)) = queries_1;
    }
    simdgroup_float8x8 acc[8];
#pragma unroll
    for (int i = 0; i < 8; ++i) {
        acc[i] = make_filled_simdgroup_matrix<float, 8, 8>(0.0f);
    }
    int at = (t >> 1 & 3) + first_row * 4;
    int at_1 = t & 31;
    int first_column_1 = (t & 1) * 2 + (t >> 3 & 1) * 4;
    simdgroup_float8x8 scores[4];
    float2 scores_1[4];
    float2 weights[4];
    half2 held[4];
    float best = -INFINITY;
    float total = 0.0f;
    for (int first = 0; first < end; first += 32) {
#pragma unroll
        for (int r = 0; r < 16; r += 4) {
            int row = first_row + r * 2;
            int cols = first + row;
            int theirs = keys_start + cols * 64 + first_column;
            half4 keys_1 = cols < args.n_keys ? *(device const half4 *)(k + theirs) : half4(0.0h);
            *(threadgroup half4 *)(keys + (row * 72 + first_column)) = keys_1;
        }
        int cols = first + at_1;
        float start_1 = cols < args.n_keys ? 0.0f : -INFINITY;
        if (t < 32) {
            start[at_1] = start_1;
        }
        threadgroup_barrier(mem_flags::mem_threadgroup);
#pragma unroll
        for (int r = 0; r < 8; r += 2) {
            int column = first_column_1 + r * 4;
            float2 start_2 = *(threadgroup const float2 *)(start + column);
            eas_elements(scores[r / 2]) = start_2;
        }
#pragma unroll
        for (int k_1 = 0; k_1 < 64; k_1 += 8) {
            simdgroup_half8x8 queries_tile;
            simdgroup_half8x8 keys_tile[4];
            simdgroup_load(queries_tile, queries + queries_corner + k_1, 72);
#pragma unroll
            for (int j = 0; j < 4; ++j) {
                simdgroup_load(keys_tile[j], keys + j * 576 + k_1, 72, ulong2(0, 0), true);
            }
#pragma unroll
            for (int j = 0; j < 4; ++j) {
                simdgroup_multiply_accumulate(scores[j], queries_tile, keys_tile[j], scores[j]);
            }
        }
        float2 largest = float2(-INFINITY);
#pragma unroll
        for (int r = 0; r < 8; r += 2) {
            int column = first_column_1 + r * 4;
            int2 cols_1 = first + (column + int2(0, 1));
            int rows = start_x + at;
            float2 scores_2 = eas_elements(scores[r / 2]);
            float2 scores_3 = select(float2(-INFINITY), scores_2, cols_1 <= rows);
            scores_1[r / 2] = scores_3;
            largest = eas_nan_max(largest, scores_3);
        }
        float folded = eas_nan_max(largest.x, largest.y);
        float other = simd_shuffle_xor(folded, 1);
        float larger = eas_nan_max(folded, other);
        float other_1 = simd_shuffle_xor(larger, 8);
        float new_best = eas_nan_max(best, eas_nan_max(larger, other_1));
        float alpha = precise::exp2(best - new_best);
#pragma unroll
        for (int r = 0; r < 8; r += 2) {
            float2 scores_2 = scores_1[r / 2];
            float2 weights_1 = precise::exp2(scores_2 - new_best);
            weights[r / 2] = weights_1;
        }
#pragma unroll
        for (int r = 0; r < 16; r += 4) {
            int row = first_row + r * 2;
            int cols_1 = first + row;
            int theirs = keys_start + cols_1 * 64 + first_column;
            half4 values_1 = cols_1 < args.n_keys ? *(device const half4 *)(v + theirs) : half4(0.0h);
            *(threadgroup half4 *)(values + (row * 72 + first_column)) = values_1;
        }
#pragma unroll
        for (int r = 0; r < 8; r += 2) {
            float2 weights_1 = weights[r / 2];
            held[r / 2] = half2(weights_1);
        }
#pragma unroll
        for (int r = 0; r < 16; r += 2) {
            float2 acc_1 = eas_elements(acc[r / 2]);
            eas_elements(acc[r / 2]) = acc_1 * alpha;
        }
        threadgroup_barrier(mem_flags::mem_threadgroup);
#pragma unroll
        for (int k_1 = 0; k_1 < 32; k_1 += 8) {
            simdgroup_half8x8 held_tile;
            simdgroup_half8x8 values_tile[8];
            eas_elements(held_tile) = held[k_1 / 8];
#pragma unroll
            for (int j = 0; j < 8; ++j) {
                simdgroup_load(values_tile[j], values + k_1 * 72 + j * 8, 72);
            }
#pragma unroll
            for (int j = 0; j < 8; ++j) {
                simdgroup_multiply_accumulate(acc[j], held_tile, values_tile[j], acc[j]);
            }
        }
        float2 total_1 = float2(-0.0f);
#pragma unroll
        for (int r = 0; r < 8; r += 2) {
            float2 weights_1 = weights[r / 2];
            total_1 += weights_1;
        }
        float folded_1 = total_1.x + total_1.y;
        float other_2 = simd_shuffle_xor(folded_1, 1);
        float sum = folded_1 + other_2;
        float other_3 = simd_shuffle_xor(sum, 8);
        best = new_best;
        total = total * alpha + (sum + other_3);
    }
    float ratio = 1.0f / total;
#pragma unroll
    for (int r = 0; r < 16; r += 2) {
        int column = first_column_1 + r * 4;
        float2 acc_1 = eas_elements(acc[r / 2]);
        int rows = start_x + at;
        int mine = product + rows * 64 + column;
        if (rows < args.n) *(device half2 *)(out + mine) = half2(acc_1 * ratio);
    }
}
