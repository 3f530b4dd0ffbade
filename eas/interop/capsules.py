"""DLPack capsules as dlpack.h lays them out: the tensor in one, in place."""

from __future__ import annotations

import ctypes
from collections.abc import Callable

from eas.base.errors import ArgumentError

MAX_VERSION = (1, 0)
_LEGACY, _VERSIONED = b"dltensor", b"dltensor_versioned"
_READ_ONLY = 1


class DLTensor(ctypes.Structure):
    _fields_ = (
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    )


class Managed(ctypes.Structure):
    """DLManagedTensor, in capsules named `dltensor`."""

    _fields_ = (
        ("tensor", DLTensor),
        ("manager_ctx", ctypes.c_void_p),
        ("deleter", ctypes.c_void_p),
    )


class ManagedVersioned(ctypes.Structure):
    """DLManagedTensorVersioned, in capsules named `dltensor_versioned`."""

    _fields_ = (
        ("major", ctypes.c_uint32),
        ("minor", ctypes.c_uint32),
        ("manager_ctx", ctypes.c_void_p),
        ("deleter", ctypes.c_void_p),
        ("flags", ctypes.c_uint64),
        ("tensor", DLTensor),
    )


# Prototypes of our own: the ones on ctypes.pythonapi are shared with every other library.
_is_valid: Callable[[object, bytes], int] = ctypes.PYFUNCTYPE(
    ctypes.c_int, ctypes.py_object, ctypes.c_char_p
)(("PyCapsule_IsValid", ctypes.pythonapi))
pointer: Callable[[object, bytes], int] = ctypes.PYFUNCTYPE(
    ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p
)(("PyCapsule_GetPointer", ctypes.pythonapi))


def is_capsule(value: object) -> bool:
    return type(value).__name__ == "PyCapsule"  # the type has no public name before Python 3.13


def content_of(capsule: object) -> tuple[DLTensor, bool]:
    """The tensor in an unused capsule, in place, and whether its memory is read-only."""
    if _is_valid(capsule, _LEGACY):
        return Managed.from_address(pointer(capsule, _LEGACY)).tensor, False
    if not _is_valid(capsule, _VERSIONED):
        raise ArgumentError(
            f"{capsule!r} holds no DLPack tensor, or one that was imported already",
            hint="export a new capsule: each one can be imported once",
        )
    managed = ManagedVersioned.from_address(pointer(capsule, _VERSIONED))
    if managed.major != MAX_VERSION[0]:
        raise ArgumentError(
            f"the capsule follows DLPack {managed.major}.{managed.minor}, eas reads version 1",
            hint="export it with max_version=(1, 0)",
        )
    return managed.tensor, bool(managed.flags & _READ_ONLY)
