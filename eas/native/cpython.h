/* The functions of CPython's C API that native code calls: declared here, so that no Python is needed to compile. */
#ifndef EAS_CPYTHON_H
#define EAS_CPYTHON_H

typedef struct PyThreadState PyThreadState;

PyThreadState *PyEval_SaveThread(void);
void PyEval_RestoreThread(PyThreadState *);
int PyGILState_Ensure(void);
void PyGILState_Release(int);
int PyErr_CheckSignals(void);

#endif
