// metal_pack: floats to and from packed integers.
#pragma once
#pragma clang system_header
#include "common.h"

namespace metal {
namespace eas {
EAS_FN uint pack_bits(float x, float scale, uint mask) { return (uint)(int)__builtin_rintf(x * scale) & mask; }
EAS_FN float unsigned_part(uint bits, uint max) { return (float)bits / (float)max; }
EAS_FN float signed_part(int bits, int max) { return eas::fmax((float)bits / (float)max, -1.0f); }
}  // namespace eas

EAS_FN uint pack_float_to_unorm4x8(float4 x) { uint r = 0; for (int i = 0; i < 4; i++) r |= eas::pack_bits(saturate(x.eas_s[i]), 255.0f, 255) << 8 * i; return r; }
EAS_FN uint pack_float_to_snorm4x8(float4 x) { uint r = 0; for (int i = 0; i < 4; i++) r |= eas::pack_bits(clamp(x.eas_s[i], -1.0f, 1.0f), 127.0f, 255) << 8 * i; return r; }
EAS_FN uint pack_float_to_unorm2x16(float2 x) { uint r = 0; for (int i = 0; i < 2; i++) r |= eas::pack_bits(saturate(x.eas_s[i]), 65535.0f, 65535) << 16 * i; return r; }
EAS_FN uint pack_float_to_snorm2x16(float2 x) { uint r = 0; for (int i = 0; i < 2; i++) r |= eas::pack_bits(clamp(x.eas_s[i], -1.0f, 1.0f), 32767.0f, 65535) << 16 * i; return r; }
EAS_FN uint pack_float_to_unorm10a2(float4 x) {
  uint r = eas::pack_bits(saturate(x.eas_s[3]), 3.0f, 3) << 30;
  for (int i = 0; i < 3; i++) r |= eas::pack_bits(saturate(x.eas_s[i]), 1023.0f, 1023) << 10 * i;
  return r;
}
EAS_FN ushort pack_float_to_unorm565(float3 x) { return (ushort)(eas::pack_bits(saturate(x.eas_s[0]), 31.0f, 31) << 11 | eas::pack_bits(saturate(x.eas_s[1]), 63.0f, 63) << 5 | eas::pack_bits(saturate(x.eas_s[2]), 31.0f, 31)); }
EAS_FN uint pack_half_to_unorm4x8(half4 x) { return pack_float_to_unorm4x8(float4(x)); }
EAS_FN uint pack_half_to_snorm4x8(half4 x) { return pack_float_to_snorm4x8(float4(x)); }
EAS_FN uint pack_half_to_unorm2x16(half2 x) { return pack_float_to_unorm2x16(float2(x)); }
EAS_FN uint pack_half_to_snorm2x16(half2 x) { return pack_float_to_snorm2x16(float2(x)); }

EAS_FN float4 unpack_unorm4x8_to_float(uint x) { float4 r{}; for (int i = 0; i < 4; i++) r.eas_s[i] = eas::unsigned_part(x >> 8 * i & 255, 255); return r; }
EAS_FN float4 unpack_snorm4x8_to_float(uint x) { float4 r{}; for (int i = 0; i < 4; i++) r.eas_s[i] = eas::signed_part((char)(x >> 8 * i & 255), 127); return r; }
EAS_FN float2 unpack_unorm2x16_to_float(uint x) { float2 r{}; for (int i = 0; i < 2; i++) r.eas_s[i] = eas::unsigned_part(x >> 16 * i & 65535, 65535); return r; }
EAS_FN float2 unpack_snorm2x16_to_float(uint x) { float2 r{}; for (int i = 0; i < 2; i++) r.eas_s[i] = eas::signed_part((short)(x >> 16 * i & 65535), 32767); return r; }
EAS_FN float4 unpack_unorm10a2_to_float(uint x) { return float4(eas::unsigned_part(x & 1023, 1023), eas::unsigned_part(x >> 10 & 1023, 1023), eas::unsigned_part(x >> 20 & 1023, 1023), eas::unsigned_part(x >> 30, 3)); }
EAS_FN float3 unpack_unorm565_to_float(ushort x) { return float3(eas::unsigned_part(x >> 11, 31), eas::unsigned_part(x >> 5 & 63, 63), eas::unsigned_part(x & 31, 31)); }
EAS_FN half4 unpack_unorm4x8_to_half(uint x) { return half4(unpack_unorm4x8_to_float(x)); }
EAS_FN half4 unpack_snorm4x8_to_half(uint x) { return half4(unpack_snorm4x8_to_float(x)); }
EAS_FN half2 unpack_unorm2x16_to_half(uint x) { return half2(unpack_unorm2x16_to_float(x)); }
EAS_FN half2 unpack_snorm2x16_to_half(uint x) { return half2(unpack_snorm2x16_to_float(x)); }

}  // namespace metal
