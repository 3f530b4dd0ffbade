"""IR texts of kernels that every index analysis must understand, written by hand."""

from __future__ import annotations

from eas.ir import IRModule, verify
from eas.ir.text import parse_module


def module(args: str, body: str) -> IRModule:
    return verify(parse_module(f"kernel k({args}) spmd {{\n{body}\nyield\n}}"))


# The matmul of the Triton tutorial: grouped program ids, rows % M, columns % N, pointers that step.
MATMUL = verify(
    parse_module("""
kernel matmul(%a: ptr<f32>, %b: ptr<f32>, %c: ptr<f32>, %M: i32, %N: i32, %K: i32, %stride_am: i32, %stride_ak: i32, %stride_bk: i32, %stride_bn: i32, %stride_cm: i32, %stride_cn: i32) spmd {
  %one = const 1 : i32
  %zero = const 0 : i32
  %c31 = const 31 : i32
  %c32 = const 32 : i32
  %c63 = const 63 : i32
  %c64 = const 64 : i32
  %group = const 8 : i32
  %pid = program_id {axis=0} : i32
  %m63 = add %M, %c63 : i32
  %num_pid_m = floordiv %m63, %c64 : i32
  %n31 = add %N, %c31 : i32
  %num_pid_n = floordiv %n31, %c32 : i32
  %num_pid_in_group = mul %group, %num_pid_n : i32
  %group_id = floordiv %pid, %num_pid_in_group : i32
  %first_pid_m = mul %group_id, %group : i32
  %rest = sub %num_pid_m, %first_pid_m : i32
  %group_size_m = min %rest, %group : i32
  %in_group = mod %pid, %num_pid_in_group : i32
  %r = mod %in_group, %group_size_m : i32
  %pid_m = add %first_pid_m, %r : i32
  %pid_n = floordiv %in_group, %group_size_m : i32
  %pm = mul %pid_m, %c64 : i32
  %am = arange {end=64, start=0} : i32[64]
  %pmb = broadcast %pm {shape=(64,)} : i32[64]
  %offs_cm = add %pmb, %am : i32[64]
  %Mb = broadcast %M {shape=(64,)} : i32[64]
  %offs_am = mod %offs_cm, %Mb : i32[64]
  %pn = mul %pid_n, %c32 : i32
  %an = arange {end=32, start=0} : i32[32]
  %pnb = broadcast %pn {shape=(32,)} : i32[32]
  %offs_cn = add %pnb, %an : i32[32]
  %Nb = broadcast %N {shape=(32,)} : i32[32]
  %offs_bn = mod %offs_cn, %Nb : i32[32]
  %offs_k = arange {end=16, start=0} : i32[16]
  %am0 = expand_dims %offs_am {axis=1} : i32[64,1]
  %sam = broadcast %stride_am {shape=(64,1,)} : i32[64,1]
  %am1 = mul %am0, %sam : i32[64,1]
  %ak0 = expand_dims %offs_k {axis=0} : i32[1,16]
  %sak = broadcast %stride_ak {shape=(1,16,)} : i32[1,16]
  %ak1 = mul %ak0, %sak : i32[1,16]
  %am2 = broadcast %am1 {shape=(64,16,)} : i32[64,16]
  %ak2 = broadcast %ak1 {shape=(64,16,)} : i32[64,16]
  %a_off = add %am2, %ak2 : i32[64,16]
  %a_b = broadcast %a {shape=(64,16,)} : ptr<f32>[64,16]
  %a_ptrs0 = addptr %a_b, %a_off : ptr<f32>[64,16]
  %bk0 = expand_dims %offs_k {axis=1} : i32[16,1]
  %sbk = broadcast %stride_bk {shape=(16,1,)} : i32[16,1]
  %bk1 = mul %bk0, %sbk : i32[16,1]
  %bn0 = expand_dims %offs_bn {axis=0} : i32[1,32]
  %sbn = broadcast %stride_bn {shape=(1,32,)} : i32[1,32]
  %bn1 = mul %bn0, %sbn : i32[1,32]
  %bk2 = broadcast %bk1 {shape=(16,32,)} : i32[16,32]
  %bn2 = broadcast %bn1 {shape=(16,32,)} : i32[16,32]
  %b_off = add %bk2, %bn2 : i32[16,32]
  %b_b = broadcast %b {shape=(16,32,)} : ptr<f32>[16,32]
  %b_ptrs0 = addptr %b_b, %b_off : ptr<f32>[16,32]
  %acc0 = const 0.0 : f32[64,32]
  %c15 = const 15 : i32
  %c16 = const 16 : i32
  %k15 = add %K, %c15 : i32
  %trips = floordiv %k15, %c16 : i32
  %ap, %bp, %acc = for %zero, %trips, %one, %a_ptrs0, %b_ptrs0, %acc0 : ptr<f32>[64,16], ptr<f32>[16,32], f32[64,32] (%k: i32, %a_ptrs: ptr<f32>[64,16], %b_ptrs: ptr<f32>[16,32], %sum: f32[64,32]) {
    %kb = mul %k, %c16 : i32
    %left = sub %K, %kb : i32
    %left_a = broadcast %left {shape=(1,16,)} : i32[1,16]
    %mask_a0 = lt %ak0, %left_a : bool[1,16]
    %mask_a = broadcast %mask_a0 {shape=(64,16,)} : bool[64,16]
    %zero_a = const 0.0 : f32[64,16]
    %at = load %a_ptrs, %mask_a, %zero_a : f32[64,16]
    %left_b = broadcast %left {shape=(16,1,)} : i32[16,1]
    %mask_b0 = lt %bk0, %left_b : bool[16,1]
    %mask_b = broadcast %mask_b0 {shape=(16,32,)} : bool[16,32]
    %zero_b = const 0.0 : f32[16,32]
    %bt = load %b_ptrs, %mask_b, %zero_b : f32[16,32]
    %sum2 = dot %at, %bt, %sum : f32[64,32]
    %step_a = mul %c16, %stride_ak : i32
    %step_ab = broadcast %step_a {shape=(64,16,)} : i32[64,16]
    %a_next = addptr %a_ptrs, %step_ab : ptr<f32>[64,16]
    %step_b = mul %c16, %stride_bk : i32
    %step_bb = broadcast %step_b {shape=(16,32,)} : i32[16,32]
    %b_next = addptr %b_ptrs, %step_bb : ptr<f32>[16,32]
    yield %a_next, %b_next, %sum2
  }
  %cm0 = expand_dims %offs_cm {axis=1} : i32[64,1]
  %scm = broadcast %stride_cm {shape=(64,1,)} : i32[64,1]
  %cm1 = mul %cm0, %scm : i32[64,1]
  %cn0 = expand_dims %offs_cn {axis=0} : i32[1,32]
  %scn = broadcast %stride_cn {shape=(1,32,)} : i32[1,32]
  %cn1 = mul %cn0, %scn : i32[1,32]
  %cm2 = broadcast %cm1 {shape=(64,32,)} : i32[64,32]
  %cn2 = broadcast %cn1 {shape=(64,32,)} : i32[64,32]
  %c_off = add %cm2, %cn2 : i32[64,32]
  %c_b = broadcast %c {shape=(64,32,)} : ptr<f32>[64,32]
  %c_ptrs = addptr %c_b, %c_off : ptr<f32>[64,32]
  %Mc = broadcast %M {shape=(64,1,)} : i32[64,1]
  %in_m0 = lt %cm0, %Mc : bool[64,1]
  %in_m = broadcast %in_m0 {shape=(64,32,)} : bool[64,32]
  %Nc = broadcast %N {shape=(1,32,)} : i32[1,32]
  %in_n0 = lt %cn0, %Nc : bool[1,32]
  %in_n = broadcast %in_n0 {shape=(64,32,)} : bool[64,32]
  %mask_c = and %in_m, %in_n : bool[64,32]
  store %c_ptrs, %acc, %mask_c
  yield
}
""")
)
