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

inline float nan_max(float a, float b) {
    return isnan(a) || a > b ? a : b;
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
    uint lane [[thread_index_in_simdgroup]],
    uint sgid [[simdgroup_index_in_threadgroup]]) {
    alignas(16) threadgroup half queries[2304];
    simdgroup_float8x8 acc[8];
    float total;
    float best;
    alignas(16) threadgroup half keys[2304];
    threadgroup float start[32];
    int queries_corner = int(sgid) * 576;
    simdgroup_float8x8 scores[4];
    float scores_1[8];
    float r;
    float alpha;
    float weights[8];
    alignas(16) threadgroup half values[2304];
    half r_1[8];
    float r_2;
    float r_3;
    float r_4;
    int t = int(tid);
    int program_id = int(gid.x);
    int product = program_id * 32;
    int program_id_1 = int(gid.y);
    int product_1 = program_id_1 * args.n * 64;
    int keys_start = program_id_1 * args.n_keys * 64;
    int end = min((program_id + 1) * 32, args.n_keys);
    int high = t >> 4;
    int column = (t & 15) * 4;
#pragma unroll
    for (int r_5 = 0; r_5 < 16; r_5 += 4) {
        int row = high + (r_5 >> 2) * 8;
        int rows = product + row;
        int mine = product_1 + rows * 64 + column;
        half4 queries_1 = half4(float4(rows < args.n ? *(device const half4 *)(q + mine) : half4(half(0.0f))) * args.scale);
        *(threadgroup half4 *)(queries + (row * 72 + column)) = queries_1;
    }
#pragma unroll
    for (int i = 0; i < 8; ++i) {
        acc[i] = make_filled_simdgroup_matrix<float, 8, 8>(0.0f);
    }
    int at = (t >> 1 & 3) + high * 4;
    total = 0.0f;
    best = -INFINITY;
    for (int first = 0; first < end; first += 32) {
#pragma unroll
        for (int r_6 = 0; r_6 < 16; r_6 += 4) {
            int row_1 = high + (r_6 >> 2) * 8;
            int cols = first + row_1;
            int theirs = keys_start + cols * 64 + column;
            half4 keys_1 = cols < args.n_keys ? *(device const half4 *)(k + theirs) : half4(half(0.0f));
            *(threadgroup half4 *)(keys + (row_1 * 72 + column)) = keys_1;
        }
        int at_1 = t & 31;
        int cols_1 = first + at_1;
        float start_1 = cols_1 < args.n_keys ? 0.0f : -INFINITY;
        if (t < 32) {
            start[at_1] = start_1;
        }
        int sum = (t & 1) * 2 + (t >> 3 & 1) * 4;
        threadgroup_barrier(mem_flags::mem_threadgroup);
#pragma unroll
        for (int r_7 = 0; r_7 < 8; ++r_7) {
            int column_1 = sum + ((r_7 & 1) + (r_7 >> 1) * 8);
            float start_2 = start[column_1];
            scores[r_7 / 2].thread_elements()[r_7 % 2] = start_2;
        }
#pragma unroll
        for (int k_1 = 0; k_1 < 64; k_1 += 8) {
            simdgroup_half8x8 queries_tile[1];
            simdgroup_half8x8 keys_tile[4];
            simdgroup_load(queries_tile[0], queries + queries_corner + k_1, 72);
#pragma unroll
            for (int j = 0; j < 4; ++j) {
                simdgroup_load(keys_tile[j], keys + j * 8 * 72 + k_1, 72, ulong2(0, 0), true);
            }
#pragma unroll
            for (int j = 0; j < 4; ++j) {
                simdgroup_multiply_accumulate(scores[j], queries_tile[0], keys_tile[j], scores[j]);
            }
        }
        float largest = -INFINITY;
#pragma unroll
        for (int r_8 = 0; r_8 < 8; ++r_8) {
            int column_2 = sum + ((r_8 & 1) + (r_8 >> 1) * 8);
            int cols_2 = first + column_2;
            int rows_1 = product + at;
            float scores_2 = scores[r_8 / 2].thread_elements()[r_8 % 2];
            float scores_3 = cols_2 <= rows_1 ? scores_2 : -INFINITY;
            scores_1[r_8] = scores_3;
            largest = nan_max(largest, scores_3);
        }
        float simd_shuffle_xor_ = simd_shuffle_xor(largest, 1);
        float max_ = nan_max(largest, simd_shuffle_xor_);
        float simd_shuffle_xor_1 = simd_shuffle_xor(max_, 8);
        r = nan_max(max_, simd_shuffle_xor_1);
        float best_1 = best;
        float new_best = nan_max(best_1, r);
        float alpha_1 = precise::exp2(best_1 - new_best);
        best = new_best;
        alpha = alpha_1;
#pragma unroll
        for (int r_9 = 0; r_9 < 8; ++r_9) {
            float scores_4 = scores_1[r_9];
            float new_best_1 = best;
            float weights_1 = precise::exp2(scores_4 - new_best_1);
            weights[r_9] = weights_1;
        }
#pragma unroll
        for (int r_10 = 0; r_10 < 16; r_10 += 4) {
            int row_2 = high + (r_10 >> 2) * 8;
            int cols_3 = first + row_2;
            int theirs_1 = keys_start + cols_3 * 64 + column;
            half4 values_1 = cols_3 < args.n_keys ? *(device const half4 *)(v + theirs_1) : half4(half(0.0f));
            *(threadgroup half4 *)(values + (row_2 * 72 + column)) = values_1;
        }
#pragma unroll
        for (int r_11 = 0; r_11 < 8; ++r_11) {
            float weights_2 = weights[r_11];
            r_1[r_11] = half(weights_2);
        }
#pragma unroll
        for (int r_12 = 0; r_12 < 16; ++r_12) {
            float acc_1 = acc[r_12 / 2].thread_elements()[r_12 % 2];
            float alpha_2 = alpha;
            acc[r_12 / 2].thread_elements()[r_12 % 2] = acc_1 * alpha_2;
        }
        threadgroup_barrier(mem_flags::mem_threadgroup);
#pragma unroll
        for (int k_2 = 0; k_2 < 32; k_2 += 8) {
            simdgroup_half8x8 r_1_tile[1];
            simdgroup_half8x8 values_tile[8];
            r_1_tile[0].thread_elements()[0] = r_1[(k_2 / 8) * 2];
            r_1_tile[0].thread_elements()[1] = r_1[(k_2 / 8) * 2 + 1];
#pragma unroll
            for (int j = 0; j < 8; ++j) {
                simdgroup_load(values_tile[j], values + k_2 * 72 + j * 8, 72);
            }
#pragma unroll
            for (int j = 0; j < 8; ++j) {
                simdgroup_multiply_accumulate(acc[j], r_1_tile[0], values_tile[j], acc[j]);
            }
        }
        float total_1 = total;
        float alpha_3 = alpha;
        r_2 = total_1 * alpha_3;
        float total_2 = -0.0f;
#pragma unroll
        for (int r_13 = 0; r_13 < 8; ++r_13) {
            float weights_3 = weights[r_13];
            total_2 = total_2 + weights_3;
        }
        float simd_shuffle_xor_2 = simd_shuffle_xor(total_2, 1);
        float sum_1 = total_2 + simd_shuffle_xor_2;
        float simd_shuffle_xor_3 = simd_shuffle_xor(sum_1, 8);
        r_3 = sum_1 + simd_shuffle_xor_3;
        float total_3 = r_2 + r_3;
        total = total_3;
    }
    float total_4 = total;
    r_4 = 1.0f / total_4;
    int sum_2 = (t & 1) * 2 + (t >> 3 & 1) * 4;
#pragma unroll
    for (int r_14 = 0; r_14 < 16; ++r_14) {
        int column_3 = sum_2 + ((r_14 & 1) + (r_14 >> 1) * 8);
        float acc_2 = acc[r_14 / 2].thread_elements()[r_14 % 2];
        int rows_2 = product + at;
        int mine_1 = product_1 + rows_2 * 64 + column_3;
        if (rows_2 < args.n) out[mine_1] = half(acc_2 * r_4);
    }
}
