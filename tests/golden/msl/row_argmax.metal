// argmax_kernel(x: ptr<f32>, out: ptr<i32>, n_cols: i32)
// One threadgroup of 256 threads per program; safe math, apple7.
#include <metal_stdlib>
using namespace metal;
#pragma METAL fp contract(off)

struct argmax_kernel_args {
    int n_cols;
};

[[max_total_threads_per_threadgroup(256)]]
kernel void argmax_kernel(
    device const float *x [[buffer(0)]],
    device int *__restrict out [[buffer(1)]],
    constant argmax_kernel_args &args [[buffer(2)]],
    uint3 gid [[threadgroup_position_in_grid]],
    uint tid [[thread_index_in_threadgroup]],
    uint lane [[thread_index_in_simdgroup]]) {
    threadgroup float parts[8];
    threadgroup int parts_1[8];
    threadgroup int parts_2[8];
    int t = int(tid);
    int program_id = int(gid.x);
    int product = program_id * args.n_cols;
    int product_1 = t * 4;
    float found = 0.0f;
    int found_1 = 0;
    int found_2 = 0;
#pragma unroll
    for (int r = 0; r < 4; ++r) {
        int at = product_1 + r;
        float values = at < args.n_cols ? x[product + at] : -INFINITY;
        bool mask = found > values || (found == values && found_1 < at) || (isnan(found) && (!isnan(values) || found_1 < at));
        found = found_2 != 0 ? (mask ? found : values) : values;
        found_1 = found_2 != 0 ? (mask ? found_1 : at) : at;
        found_2 = found_2 | 1;
    }
    float simd_shuffle_xor_ = simd_shuffle_xor(found, 1);
    int simd_shuffle_xor_1 = simd_shuffle_xor(found_1, 1);
    int simd_shuffle_xor_2 = simd_shuffle_xor(found_2, 1);
    bool mask_1 = (t & 1) != 0;
    float chosen = mask_1 ? simd_shuffle_xor_ : found;
    int chosen_1 = mask_1 ? simd_shuffle_xor_1 : found_1;
    int chosen_2 = mask_1 ? simd_shuffle_xor_2 : found_2;
    float chosen_3 = mask_1 ? found : simd_shuffle_xor_;
    int chosen_4 = mask_1 ? found_1 : simd_shuffle_xor_1;
    int chosen_5 = mask_1 ? found_2 : simd_shuffle_xor_2;
    bool mask_2 = chosen > chosen_3 || (chosen == chosen_3 && chosen_1 < chosen_4) || (isnan(chosen) && (!isnan(chosen_3) || chosen_1 < chosen_4));
    float chosen_6 = chosen_2 != 0 ? (chosen_5 != 0 ? (mask_2 ? chosen : chosen_3) : chosen) : chosen_3;
    int chosen_7 = chosen_2 != 0 ? (chosen_5 != 0 ? (mask_2 ? chosen_1 : chosen_4) : chosen_1) : chosen_4;
    int or_ = chosen_2 | chosen_5;
    float simd_shuffle_xor_3 = simd_shuffle_xor(chosen_6, 2);
    int simd_shuffle_xor_4 = simd_shuffle_xor(chosen_7, 2);
    int simd_shuffle_xor_5 = simd_shuffle_xor(or_, 2);
    bool mask_3 = (t & 2) != 0;
    float chosen_8 = mask_3 ? simd_shuffle_xor_3 : chosen_6;
    int chosen_9 = mask_3 ? simd_shuffle_xor_4 : chosen_7;
    int chosen_10 = mask_3 ? simd_shuffle_xor_5 : or_;
    float chosen_11 = mask_3 ? chosen_6 : simd_shuffle_xor_3;
    int chosen_12 = mask_3 ? chosen_7 : simd_shuffle_xor_4;
    int chosen_13 = mask_3 ? or_ : simd_shuffle_xor_5;
    bool mask_4 = chosen_8 > chosen_11 || (chosen_8 == chosen_11 && chosen_9 < chosen_12) || (isnan(chosen_8) && (!isnan(chosen_11) || chosen_9 < chosen_12));
    float chosen_14 = chosen_10 != 0 ? (chosen_13 != 0 ? (mask_4 ? chosen_8 : chosen_11) : chosen_8) : chosen_11;
    int chosen_15 = chosen_10 != 0 ? (chosen_13 != 0 ? (mask_4 ? chosen_9 : chosen_12) : chosen_9) : chosen_12;
    int or_1 = chosen_10 | chosen_13;
    float simd_shuffle_xor_6 = simd_shuffle_xor(chosen_14, 4);
    int simd_shuffle_xor_7 = simd_shuffle_xor(chosen_15, 4);
    int simd_shuffle_xor_8 = simd_shuffle_xor(or_1, 4);
    bool mask_5 = (t & 4) != 0;
    float chosen_16 = mask_5 ? simd_shuffle_xor_6 : chosen_14;
    int chosen_17 = mask_5 ? simd_shuffle_xor_7 : chosen_15;
    int chosen_18 = mask_5 ? simd_shuffle_xor_8 : or_1;
    float chosen_19 = mask_5 ? chosen_14 : simd_shuffle_xor_6;
    int chosen_20 = mask_5 ? chosen_15 : simd_shuffle_xor_7;
    int chosen_21 = mask_5 ? or_1 : simd_shuffle_xor_8;
    bool mask_6 = chosen_16 > chosen_19 || (chosen_16 == chosen_19 && chosen_17 < chosen_20) || (isnan(chosen_16) && (!isnan(chosen_19) || chosen_17 < chosen_20));
    float chosen_22 = chosen_18 != 0 ? (chosen_21 != 0 ? (mask_6 ? chosen_16 : chosen_19) : chosen_16) : chosen_19;
    int chosen_23 = chosen_18 != 0 ? (chosen_21 != 0 ? (mask_6 ? chosen_17 : chosen_20) : chosen_17) : chosen_20;
    int or_2 = chosen_18 | chosen_21;
    float simd_shuffle_xor_9 = simd_shuffle_xor(chosen_22, 8);
    int simd_shuffle_xor_10 = simd_shuffle_xor(chosen_23, 8);
    int simd_shuffle_xor_11 = simd_shuffle_xor(or_2, 8);
    bool mask_7 = (t & 8) != 0;
    float chosen_24 = mask_7 ? simd_shuffle_xor_9 : chosen_22;
    int chosen_25 = mask_7 ? simd_shuffle_xor_10 : chosen_23;
    int chosen_26 = mask_7 ? simd_shuffle_xor_11 : or_2;
    float chosen_27 = mask_7 ? chosen_22 : simd_shuffle_xor_9;
    int chosen_28 = mask_7 ? chosen_23 : simd_shuffle_xor_10;
    int chosen_29 = mask_7 ? or_2 : simd_shuffle_xor_11;
    bool mask_8 = chosen_24 > chosen_27 || (chosen_24 == chosen_27 && chosen_25 < chosen_28) || (isnan(chosen_24) && (!isnan(chosen_27) || chosen_25 < chosen_28));
    float chosen_30 = chosen_26 != 0 ? (chosen_29 != 0 ? (mask_8 ? chosen_24 : chosen_27) : chosen_24) : chosen_27;
    int chosen_31 = chosen_26 != 0 ? (chosen_29 != 0 ? (mask_8 ? chosen_25 : chosen_28) : chosen_25) : chosen_28;
    int or_3 = chosen_26 | chosen_29;
    float simd_shuffle_xor_12 = simd_shuffle_xor(chosen_30, 16);
    int simd_shuffle_xor_13 = simd_shuffle_xor(chosen_31, 16);
    int simd_shuffle_xor_14 = simd_shuffle_xor(or_3, 16);
    bool mask_9 = (t & 16) != 0;
    float chosen_32 = mask_9 ? simd_shuffle_xor_12 : chosen_30;
    int chosen_33 = mask_9 ? simd_shuffle_xor_13 : chosen_31;
    int chosen_34 = mask_9 ? simd_shuffle_xor_14 : or_3;
    float chosen_35 = mask_9 ? chosen_30 : simd_shuffle_xor_12;
    int chosen_36 = mask_9 ? chosen_31 : simd_shuffle_xor_13;
    int chosen_37 = mask_9 ? or_3 : simd_shuffle_xor_14;
    bool mask_10 = chosen_32 > chosen_35 || (chosen_32 == chosen_35 && chosen_33 < chosen_36) || (isnan(chosen_32) && (!isnan(chosen_35) || chosen_33 < chosen_36));
    float chosen_38 = chosen_34 != 0 ? (chosen_37 != 0 ? (mask_10 ? chosen_32 : chosen_35) : chosen_32) : chosen_35;
    int chosen_39 = chosen_34 != 0 ? (chosen_37 != 0 ? (mask_10 ? chosen_33 : chosen_36) : chosen_33) : chosen_36;
    int or_4 = chosen_34 | chosen_37;
    int high = t >> 5;
    if ((t & 31) == 0) {
        parts[high] = chosen_38;
        parts_1[high] = chosen_39;
        parts_2[high] = or_4;
    }
    threadgroup_barrier(mem_flags::mem_threadgroup);
    float parts_value = parts[0];
    int parts_1_value = parts_1[0];
    int parts_2_value = parts_2[0];
#pragma unroll
    for (int part = 1; part < 8; ++part) {
        float parts_value_1 = parts[part];
        int parts_1_value_1 = parts_1[part];
        int parts_2_value_1 = parts_2[part];
        bool mask_11 = parts_value > parts_value_1 || (parts_value == parts_value_1 && parts_1_value < parts_1_value_1) || (isnan(parts_value) && (!isnan(parts_value_1) || parts_1_value < parts_1_value_1));
        parts_value = parts_2_value != 0 ? (parts_2_value_1 != 0 ? (mask_11 ? parts_value : parts_value_1) : parts_value) : parts_value_1;
        parts_1_value = parts_2_value != 0 ? (parts_2_value_1 != 0 ? (mask_11 ? parts_1_value : parts_1_value_1) : parts_1_value) : parts_1_value_1;
        parts_2_value = parts_2_value | parts_2_value_1;
    }
    if (t == 0) {
        out[program_id] = parts_1_value;
    }
}
