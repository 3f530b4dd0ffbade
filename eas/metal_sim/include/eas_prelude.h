// All of the shim, for the precompiled header.
#pragma once
// Without debug information of its own, a function of the shim counts as the kernel line that uses it.
#pragma clang attribute push(__attribute__((nodebug)), apply_to = hasType(functionType))
#include "eas_sim.h"
#include <metal_array>
#include <metal_atomic>
#include <metal_common>
#include <metal_compute>
#include <metal_config>
#include <metal_extended_vector>
#include <metal_geometric>
#include <metal_integer>
#include <metal_limits>
#include <metal_logging>
#include <metal_math>
#include <metal_matrix>
#include <metal_pack>
#include <metal_packed_vector>
#include <metal_quadgroup>
#include <metal_relational>
#include <metal_simdgroup>
#include <metal_simdgroup_matrix>
#include <metal_stdlib>
#include <metal_type_traits>
#include <metal_types>
#include <metal_utility>
#include "eas_trampoline.h"
#include "eas_common_uses.h"
#pragma clang attribute pop
