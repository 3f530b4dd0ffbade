// What #if can ask. The driver shows these lines to the preprocessor as well, which reads no other header.
#pragma once
#ifndef __METAL_VERSION__
#define __METAL_VERSION__ 310
#endif
#ifndef __METAL__
#define __METAL__ 1
#endif
#ifndef __METAL_MACOS__
#define __METAL_MACOS__ 1
#endif
#define __HAVE_HALF__ 1
#define __HAVE_INT64__ 1
#define __HAVE_SIMDGROUP_MATRIX__ 1
#define __HAVE_SIMDGROUP_REDUCTION__ 1
#define __HAVE_SIMDGROUP_BALLOT__ 1
#define __HAVE_QUADGROUP__ 1
#define __HAVE_ATOMIC_ULONG__ 1
#define __HAVE_ATOMIC_ULONG_MIN_MAX__ 1
#if __METAL_VERSION__ >= 310
#define __HAVE_BFLOAT__ 1
#endif
