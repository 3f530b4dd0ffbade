/* The functions of CPython's C API that native code calls: declared here, so that no Python is needed to compile. */
#ifndef EAS_CPYTHON_H
#define EAS_CPYTHON_H

#include <stddef.h>
#include <stdint.h>

typedef struct PyObject PyObject;
typedef struct PyTypeObject PyTypeObject;
typedef struct PyThreadState PyThreadState;

PyThreadState *PyEval_SaveThread(void);
void PyEval_RestoreThread(PyThreadState *);
int PyGILState_Ensure(void);
void PyGILState_Release(int);
int PyErr_CheckSignals(void);

void Py_IncRef(PyObject *);
void Py_DecRef(PyObject *);
PyObject *PyErr_NoMemory(void);
void PyErr_Clear(void);
void PyErr_Fetch(PyObject **, PyObject **, PyObject **);
void PyErr_NormalizeException(PyObject **, PyObject **, PyObject **);
void PyErr_Restore(PyObject *, PyObject *, PyObject *);
int PyException_SetTraceback(PyObject *, PyObject *);
PyObject *PyException_GetTraceback(PyObject *);
PyObject *PyTuple_GetItem(PyObject *, int64_t);
int64_t PyDict_Size(PyObject *);
PyObject *PyDict_GetItemWithError(PyObject *, PyObject *);
int64_t PySet_Size(PyObject *);
int64_t PyLong_AsLongLongAndOverflow(PyObject *, int *);
void *PyLong_AsVoidPtr(PyObject *);
double PyFloat_AsDouble(PyObject *);
PyObject *PyCell_Get(PyObject *);
PyObject *PyFunction_GetCode(PyObject *);
PyObject *PyFunction_GetDefaults(PyObject *);
PyObject *PyFunction_GetKwDefaults(PyObject *);
PyObject *PyBytes_FromStringAndSize(const char *, int64_t);
PyObject *PyObject_CallNoArgs(PyObject *);
PyObject *PyObject_CallOneArg(PyObject *, PyObject *);
PyObject *PyObject_Vectorcall(PyObject *, PyObject *const *, uint64_t, PyObject *);
void *PyMem_Malloc(size_t);
void PyMem_Free(void *);

#endif
