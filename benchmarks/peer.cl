/* The rows as an OpenCL user writes them for a CPU: one work-item per row, vectors of 8. */
#define HSUM(v) (v.s0 + v.s1 + v.s2 + v.s3 + v.s4 + v.s5 + v.s6 + v.s7)
#define HMAX(v) fmax(fmax(fmax(v.s0, v.s1), fmax(v.s2, v.s3)), fmax(fmax(v.s4, v.s5), fmax(v.s6, v.s7)))

kernel void softmax(global const float *x, global float *y, int cols) {
    global const float8 *row = (global const float8 *)(x + (size_t)get_global_id(0) * cols);
    global float8 *out = (global float8 *)(y + (size_t)get_global_id(0) * cols);
    float8 m = row[0], total = 0;
    for (int c = 0; c < cols / 8; c++) m = fmax(m, row[c]);
    float best = HMAX(m);
    for (int c = 0; c < cols / 8; c++) {
        float8 e = exp(row[c] - best);
        total += e;
        out[c] = e;
    }
    float scale = 1.0f / HSUM(total);
    for (int c = 0; c < cols / 8; c++) out[c] *= scale;
}

kernel void layer_norm(global const float *x, global float *y, int cols, global const float8 *w, global const float8 *b, float eps) {
    global const float8 *row = (global const float8 *)(x + (size_t)get_global_id(0) * cols);
    global float8 *out = (global float8 *)(y + (size_t)get_global_id(0) * cols);
    float8 t0 = 0, t1 = 0;
    for (int c = 0; c < cols / 8; c += 2) t0 += row[c], t1 += row[c + 1];
    t0 += t1;
    float mean = HSUM(t0) / cols;
    t0 = 0, t1 = 0;
    for (int c = 0; c < cols / 8; c += 2) {
        float8 u = row[c] - mean, v = row[c + 1] - mean;
        t0 += u * u, t1 += v * v;
    }
    t0 += t1;
    float rstd = 1.0f / sqrt(HSUM(t0) / cols + eps);
    for (int c = 0; c < cols / 8; c++) out[c] = (row[c] - mean) * rstd * w[c] + b[c];
}

kernel void rms_norm(global const float *x, global float *y, int cols, global const float8 *w, float eps) {
    global const float8 *row = (global const float8 *)(x + (size_t)get_global_id(0) * cols);
    global float8 *out = (global float8 *)(y + (size_t)get_global_id(0) * cols);
    float8 t0 = 0, t1 = 0;
    for (int c = 0; c < cols / 8; c += 2) t0 += row[c] * row[c], t1 += row[c + 1] * row[c + 1];
    t0 += t1;
    float rstd = 1.0f / sqrt(HSUM(t0) / cols + eps);
    for (int c = 0; c < cols / 8; c++) out[c] = row[c] * rstd * w[c];
}
