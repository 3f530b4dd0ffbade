; tools/build_native.py made this of the C sources with the digest 8908c16173a93da2d6fbd106c722e6f0
; compiled by ziglang 0.17.0
%union.anon = type { ptr }
%struct.__sigset_t = type { [16 x i64] }
%struct.sigaction = type { %union.anon, %struct.__sigset_t, i32, ptr }
%struct.anon = type { %union.pthread_mutex_t, [24 x i8] }
%union.pthread_mutex_t = type { %struct.__pthread_mutex_s }
%struct.__pthread_mutex_s = type { i32, i32, i32, i32, i32, i16, i16, %struct.__pthread_internal_list }
%struct.__pthread_internal_list = type { ptr, ptr }
%struct.anon.0 = type { %union.pthread_cond_t, [16 x i8] }
%union.pthread_cond_t = type { %struct.__pthread_cond_s }
%struct.__pthread_cond_s = type { %union.__atomic_wide_counter, %union.__atomic_wide_counter, [2 x i32], i32, i32, [2 x i32], i32, i32 }
%union.__atomic_wide_counter = type { i64 }
%struct.anon.14 = type { i32, [60 x i8] }
%struct.given = type { ptr, i64, ptr, ptr, i64, i32 }
%struct.frame = type { [136 x i64], [64 x i64], [5 x i64], i64, [3 x i64], [64 x ptr], i64, [64 x ptr] }
%struct.param = type { i64, ptr, ptr, ptr, i64, i64, i64, i64, i64, ptr, i64, i64, ptr, i64, ptr }
%struct.guard = type { i64, ptr, ptr, ptr, ptr }
%struct.axis = type { i64, i64, i64 }
%struct.fact = type { i64, i64, i64, i64 }
%struct.variant = type { i64, ptr, i64, ptr, i64 }
%struct.launch = type { ptr, ptr, i64, i64, ptr, ptr, ptr, i64 }
%struct.arena = type { ptr, i64, i8 }
%struct.timespec = type { i64, i64 }
%struct.deal = type { i64, i64, i64, i64 }
%struct.row = type { ptr, ptr, i64, i64, i64, ptr, i64, ptr }
%struct.memory = type { i64, i64, ptr, ptr, i64 }
%struct.asked = type { i64, i64, i64, i64, i64 }
%struct.fixed = type { i64, i64 }
%struct.job = type { %struct.launch, %struct.deal, i64, i64, [16 x i8], ptr, i32, i32, i8, [47 x i8], i64, [56 x i8] }
@__const.eas_faults_install.ours = private constant { %union.anon, %struct.__sigset_t, i32, [4 x i8], ptr } { %union.anon { ptr @on_fault }, %struct.__sigset_t zeroinitializer, i32 134217732, [4 x i8] zeroinitializer, ptr null }, align 8
@before_fault = internal global %struct.sigaction zeroinitializer, align 8
@before_bus = internal global %struct.sigaction zeroinitializer, align 8
@pool_lock = internal global %struct.anon zeroinitializer, align 64
@work = internal global %struct.anon.0 zeroinitializer, align 64
@done = internal global %struct.anon.0 zeroinitializer, align 64
@jobs = internal global ptr null, align 8
@parked = internal global i32 0, align 4
@workers = internal global i64 0, align 8
@team_run = internal global ptr null, align 8
@owner = internal global i32 0, align 4
@main_thread = internal global i64 0, align 8
@team_size = internal global ptr null, align 8
@eas_faults_codes = global ptr null, align 8
@tickets = internal global %struct.anon.14 zeroinitializer, align 64
@last_asked = internal global i64 0, align 8
@has_arena_key = internal global i8 0, align 1
@arena_key = internal global i32 0, align 4
define void @eas_faults_install() nounwind {
  %1 = alloca %struct.sigaction, align 8
  call void @llvm.memcpy.p0.p0.i64(ptr align 8 %1, ptr align 8 @__const.eas_faults_install.ours, i64 152, i1 false)
  %2 = call i32 @sigaction(i32 11, ptr %1, ptr @before_fault)
  %3 = call i32 @sigaction(i32 7, ptr %1, ptr @before_bus)
  ret void
}
define internal void @on_fault(i32 %0, ptr %1, ptr %2) nounwind {
  %4 = icmp eq i32 %0, 7
  %5 = select i1 %4, ptr @before_bus, ptr @before_fault
  %6 = getelementptr inbounds nuw i8, ptr %2, i64 168
  %7 = load i64, ptr %6, align 8
  %8 = load ptr, ptr @eas_faults_codes, align 8
  %9 = icmp eq ptr %8, null
  br i1 %9, label %29, label %10
10:
  %11 = phi ptr [ %27, %25 ], [ %8, %3 ]
  %12 = load i64, ptr %11, align 8
  %13 = icmp ugt i64 %12, %7
  br i1 %13, label %25, label %14
14:
  %15 = getelementptr inbounds nuw i8, ptr %11, i64 8
  %16 = load i64, ptr %15, align 8
  %17 = icmp ult i64 %7, %16
  br i1 %17, label %18, label %25
18:
  %19 = getelementptr inbounds nuw i8, ptr %11, i64 16
  %20 = load ptr, ptr %19, align 8
  %21 = getelementptr inbounds nuw i8, ptr %11, i64 24
  %22 = load i64, ptr %21, align 8
  %23 = tail call i64 @write(i32 2, ptr %20, i64 %22)
  %24 = tail call i32 @sigaction(i32 %0, ptr %5, ptr null)
  br label %47
25:
  %26 = getelementptr inbounds nuw i8, ptr %11, i64 32
  %27 = load ptr, ptr %26, align 8
  %28 = icmp eq ptr %27, null
  br i1 %28, label %29, label %10
29:
  %30 = load ptr, ptr %5, align 8
  %31 = icmp ult ptr %30, inttoptr (i64 2 to ptr)
  br i1 %31, label %32, label %39
32:
  %33 = tail call i32 @sigaction(i32 %0, ptr %5, ptr null)
  %34 = getelementptr inbounds nuw i8, ptr %1, i64 8
  %35 = load i32, ptr %34, align 8
  %36 = icmp slt i32 %35, 1
  br i1 %36, label %37, label %47
37:
  %38 = tail call i32 @raise(i32 %0)
  br label %47
39:
  %40 = load i32, ptr getelementptr inbounds nuw (i8, ptr @before_bus, i64 136), align 8
  %41 = load i32, ptr getelementptr inbounds nuw (i8, ptr @before_fault, i64 136), align 8
  %42 = select i1 %4, i32 %40, i32 %41
  %43 = and i32 %42, 4
  %44 = icmp eq i32 %43, 0
  br i1 %44, label %46, label %45
45:
  tail call void %30(i32 %0, ptr %1, ptr %2)
  br label %47
46:
  tail call void %30(i32 %0)
  br label %47
47:
  ret void
}
declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)
declare i32 @sigaction(i32, ptr, ptr)
define ptr @eas_plan_launch(ptr %0, ptr %1, i64 %2) nounwind {
  %4 = alloca %struct.given, align 8
  %5 = getelementptr inbounds nuw i8, ptr %0, i64 24
  %6 = load ptr, ptr %5, align 8
  %7 = tail call ptr @PyLong_AsVoidPtr(ptr %6)
  %8 = add i64 %2, -5
  %9 = icmp ult i64 %8, -2
  br i1 %9, label %52, label %10
10:
  %11 = load ptr, ptr %1, align 8
  %12 = getelementptr inbounds nuw i8, ptr %11, i64 8
  %13 = load ptr, ptr %12, align 8
  %14 = getelementptr inbounds nuw i8, ptr %7, i64 248
  %15 = load ptr, ptr %14, align 8
  %16 = getelementptr inbounds nuw i8, ptr %15, i64 24
  %17 = load ptr, ptr %16, align 8
  %18 = icmp eq ptr %13, %17
  br i1 %18, label %19, label %52
19:
  %20 = getelementptr inbounds nuw i8, ptr %1, i64 8
  %21 = load ptr, ptr %20, align 8
  %22 = getelementptr inbounds nuw i8, ptr %21, i64 8
  %23 = load ptr, ptr %22, align 8
  %24 = getelementptr inbounds nuw i8, ptr %15, i64 32
  %25 = load ptr, ptr %24, align 8
  %26 = icmp eq ptr %23, %25
  br i1 %26, label %27, label %52
27:
  %28 = getelementptr inbounds nuw i8, ptr %11, i64 24
  %29 = getelementptr inbounds nuw i8, ptr %11, i64 16
  %30 = load i64, ptr %29, align 8
  %31 = tail call i64 @PyDict_Size(ptr %21)
  %32 = icmp eq i64 %2, 4
  br i1 %32, label %33, label %41
33:
  %34 = getelementptr inbounds nuw i8, ptr %1, i64 24
  %35 = load ptr, ptr %34, align 8
  %36 = load ptr, ptr %14, align 8
  %37 = getelementptr inbounds nuw i8, ptr %36, i64 40
  %38 = load ptr, ptr %37, align 8
  %39 = icmp eq ptr %35, %38
  %40 = zext i1 %39 to i32
  br label %41
41:
  %42 = phi i32 [ 0, %27 ], [ %40, %33 ]
  store ptr %28, ptr %4, align 8
  %43 = getelementptr inbounds nuw i8, ptr %4, i64 8
  store i64 %30, ptr %43, align 8
  %44 = getelementptr inbounds nuw i8, ptr %4, i64 16
  store ptr null, ptr %44, align 8
  %45 = getelementptr inbounds nuw i8, ptr %4, i64 24
  store ptr %21, ptr %45, align 8
  %46 = getelementptr inbounds nuw i8, ptr %4, i64 32
  store i64 %31, ptr %46, align 8
  %47 = getelementptr inbounds nuw i8, ptr %4, i64 40
  store i32 %42, ptr %47, align 8
  %48 = getelementptr inbounds nuw i8, ptr %4, i64 44
  store i32 0, ptr %48, align 4
  %49 = getelementptr inbounds nuw i8, ptr %1, i64 16
  %50 = load ptr, ptr %49, align 8
  %51 = call fastcc ptr @launch_plan(ptr %7, ptr %4, i64 0, ptr %50)
  br label %59
52:
  %53 = load ptr, ptr %5, align 8
  %54 = tail call ptr @PyLong_AsVoidPtr(ptr %53)
  %55 = getelementptr inbounds nuw i8, ptr %54, i64 248
  %56 = load ptr, ptr %55, align 8
  %57 = getelementptr inbounds nuw i8, ptr %56, i64 64
  %58 = load ptr, ptr %57, align 8
  tail call void @Py_IncRef(ptr %58)
  br label %59
59:
  %60 = phi ptr [ %51, %41 ], [ %58, %52 ]
  ret ptr %60
}
define internal fastcc ptr @launch_plan(ptr %0, ptr %1, i64 %2, ptr %3) nounwind {
  %5 = alloca %struct.frame, align 8
  %6 = alloca ptr, align 8
  %7 = getelementptr inbounds nuw i8, ptr %0, i64 248
  %8 = load ptr, ptr %7, align 8
  %9 = getelementptr inbounds nuw i8, ptr %8, i64 64
  %10 = load ptr, ptr %9, align 8
  %11 = getelementptr inbounds nuw i8, ptr %0, i64 120
  %12 = load ptr, ptr %11, align 8
  tail call void @Py_IncRef(ptr %12)
  %13 = getelementptr inbounds nuw i8, ptr %0, i64 104
  %14 = load ptr, ptr %13, align 8
  %15 = load atomic i64, ptr %14 acquire, align 8
  %16 = icmp eq i64 %15, 0
  br i1 %16, label %17, label %35
17:
  %18 = call fastcc i64 @interpret(ptr %0, ptr %1, i64 %2, ptr %3, ptr %5, ptr %6)
  %19 = icmp sgt i64 %18, -1
  %20 = load ptr, ptr %6, align 8
  %21 = icmp ne ptr %20, null
  %22 = select i1 %19, i1 %21, i1 false
  br i1 %22, label %23, label %35
23:
  %24 = getelementptr inbounds nuw i8, ptr %5, i64 1600
  call void @llvm.memset.p0.i64(ptr align 8 %24, i8 0, i64 40, i1 false)
  %25 = ptrtoint ptr %24 to i64
  %26 = getelementptr inbounds nuw i8, ptr %0, i64 80
  %27 = load i64, ptr %26, align 8
  %28 = getelementptr i64, ptr %5, i64 %27
  %29 = getelementptr i8, ptr %28, i64 24
  store i64 %25, ptr %29, align 8
  %30 = getelementptr i8, ptr %28, i64 32
  store i64 0, ptr %30, align 8
  %31 = getelementptr inbounds nuw i8, ptr %20, i64 24
  %32 = load ptr, ptr %31, align 8
  %33 = load atomic i64, ptr %32 monotonic, align 8
  %34 = icmp eq i64 %33, 0
  br i1 %34, label %55, label %36
35:
  tail call void @PyErr_Clear()
  tail call void @Py_IncRef(ptr %10)
  tail call void @Py_DecRef(ptr %12)
  br label %195
36:
  %37 = getelementptr inbounds nuw i8, ptr %20, i64 32
  %38 = load i64, ptr %37, align 8
  %39 = icmp ugt i64 %18, %38
  br i1 %39, label %55, label %40
40:
  %41 = sitofp i64 %33 to double
  %42 = uitofp nneg i64 %18 to double
  %43 = fmul double %42, %41
  %44 = fcmp ugt double %43, 5.000000e+06
  br i1 %44, label %55, label %45
45:
  %46 = getelementptr inbounds nuw i8, ptr %0, i64 88
  %47 = load ptr, ptr %46, align 8
  %48 = getelementptr inbounds nuw i8, ptr %20, i64 8
  %49 = load ptr, ptr %48, align 8
  %50 = getelementptr inbounds nuw i8, ptr %0, i64 96
  %51 = load i64, ptr %50, align 8
  %52 = getelementptr inbounds nuw i8, ptr %20, i64 16
  %53 = load i64, ptr %52, align 8
  %54 = call i32 %47(ptr %49, ptr %5, i64 %18, i64 0, i64 %51, i64 %53, ptr %32, ptr null, i64 %38)
  br label %114
55:
  %56 = load i64, ptr %0, align 8
  %57 = icmp sgt i64 %56, 0
  br i1 %57, label %58, label %61
58:
  %59 = getelementptr inbounds nuw i8, ptr %0, i64 8
  %60 = getelementptr inbounds nuw i8, ptr %5, i64 1672
  br label %80
61:
  %62 = call ptr @PyEval_SaveThread()
  %63 = getelementptr inbounds nuw i8, ptr %0, i64 88
  %64 = load ptr, ptr %63, align 8
  %65 = getelementptr inbounds nuw i8, ptr %20, i64 8
  %66 = load ptr, ptr %65, align 8
  %67 = getelementptr inbounds nuw i8, ptr %0, i64 96
  %68 = load i64, ptr %67, align 8
  %69 = getelementptr inbounds nuw i8, ptr %20, i64 16
  %70 = load i64, ptr %69, align 8
  %71 = load ptr, ptr %31, align 8
  %72 = getelementptr inbounds nuw i8, ptr %20, i64 32
  %73 = load i64, ptr %72, align 8
  %74 = call i32 %64(ptr %66, ptr %5, i64 %18, i64 0, i64 %68, i64 %70, ptr %71, ptr null, i64 %73)
  call void @PyEval_RestoreThread(ptr %62)
  %75 = load i64, ptr %0, align 8
  %76 = icmp sgt i64 %75, 0
  br i1 %76, label %77, label %114
77:
  %78 = getelementptr inbounds nuw i8, ptr %0, i64 8
  %79 = getelementptr inbounds nuw i8, ptr %5, i64 1672
  br label %97
80:
  %81 = phi i64 [ %56, %58 ], [ %94, %93 ]
  %82 = phi i64 [ 0, %58 ], [ %95, %93 ]
  %83 = load ptr, ptr %59, align 8
  %84 = getelementptr inbounds nuw %struct.param, ptr %83, i64 %82
  %85 = load i64, ptr %84, align 8
  %86 = icmp eq i64 %85, 0
  br i1 %86, label %87, label %93
87:
  %88 = getelementptr inbounds nuw i8, ptr %84, i64 32
  %89 = load i64, ptr %88, align 8
  %90 = getelementptr inbounds ptr, ptr %60, i64 %89
  %91 = load ptr, ptr %90, align 8
  call void @Py_IncRef(ptr %91)
  %92 = load i64, ptr %0, align 8
  br label %93
93:
  %94 = phi i64 [ %81, %80 ], [ %92, %87 ]
  %95 = add nuw nsw i64 %82, 1
  %96 = icmp slt i64 %95, %94
  br i1 %96, label %80, label %61
97:
  %98 = phi i64 [ %75, %77 ], [ %111, %110 ]
  %99 = phi i64 [ 0, %77 ], [ %112, %110 ]
  %100 = load ptr, ptr %78, align 8
  %101 = getelementptr inbounds nuw %struct.param, ptr %100, i64 %99
  %102 = load i64, ptr %101, align 8
  %103 = icmp eq i64 %102, 0
  br i1 %103, label %104, label %110
104:
  %105 = getelementptr inbounds nuw i8, ptr %101, i64 32
  %106 = load i64, ptr %105, align 8
  %107 = getelementptr inbounds ptr, ptr %79, i64 %106
  %108 = load ptr, ptr %107, align 8
  call void @Py_DecRef(ptr %108)
  %109 = load i64, ptr %0, align 8
  br label %110
110:
  %111 = phi i64 [ %98, %97 ], [ %109, %104 ]
  %112 = add nuw nsw i64 %99, 1
  %113 = icmp slt i64 %112, %111
  br i1 %113, label %97, label %114
114:
  %115 = phi i32 [ %54, %45 ], [ %74, %61 ], [ %74, %110 ]
  switch i32 %115, label %191 [
    i32 0, label %116
    i32 5, label %190
    i32 4, label %193
  ]
116:
  %117 = getelementptr inbounds nuw i8, ptr %5, i64 2184
  %118 = load i64, ptr %117, align 8
  %119 = icmp sgt i64 %118, 0
  br i1 %119, label %120, label %123
120:
  %121 = getelementptr inbounds nuw i8, ptr %8, i64 216
  %122 = getelementptr inbounds nuw i8, ptr %5, i64 2192
  br label %131
123:
  %124 = getelementptr inbounds nuw i8, ptr %0, i64 232
  %125 = load i64, ptr %124, align 8
  %126 = icmp sgt i64 %125, -1
  %127 = getelementptr inbounds nuw i8, ptr %1, i64 8
  %128 = load i64, ptr %127, align 8
  %129 = icmp slt i64 %125, %128
  %130 = select i1 %126, i1 %129, i1 false
  br i1 %130, label %140, label %138
131:
  %132 = phi i64 [ 0, %120 ], [ %135, %131 ]
  %133 = load ptr, ptr %121, align 8
  %134 = getelementptr inbounds nuw ptr, ptr %122, i64 %132
  call void %133(ptr %134)
  %135 = add nuw nsw i64 %132, 1
  %136 = load i64, ptr %117, align 8
  %137 = icmp slt i64 %135, %136
  br i1 %137, label %131, label %123
138:
  %139 = getelementptr inbounds nuw i8, ptr %8, i64 56
  br label %143
140:
  %141 = load ptr, ptr %1, align 8
  %142 = getelementptr inbounds nuw ptr, ptr %141, i64 %125
  br label %143
143:
  %144 = phi ptr [ %139, %138 ], [ %142, %140 ]
  %145 = load ptr, ptr %144, align 8
  %146 = icmp slt i64 %125, %128
  br i1 %146, label %179, label %147
147:
  %148 = getelementptr inbounds nuw i8, ptr %0, i64 8
  %149 = load ptr, ptr %148, align 8
  %150 = getelementptr inbounds %struct.param, ptr %149, i64 %125
  %151 = getelementptr inbounds nuw i8, ptr %150, i64 8
  %152 = load ptr, ptr %151, align 8
  %153 = getelementptr inbounds nuw i8, ptr %1, i64 24
  %154 = load ptr, ptr %153, align 8
  %155 = icmp eq ptr %154, null
  br i1 %155, label %156, label %164
156:
  %157 = getelementptr inbounds nuw i8, ptr %1, i64 32
  %158 = load i64, ptr %157, align 8
  %159 = icmp sgt i64 %158, 0
  br i1 %159, label %160, label %179
160:
  %161 = getelementptr inbounds nuw i8, ptr %1, i64 16
  %162 = load ptr, ptr %161, align 8
  %163 = getelementptr inbounds nuw i8, ptr %162, i64 24
  br label %166
164:
  %165 = call ptr @PyDict_GetItemWithError(ptr %154, ptr %152)
  br label %179
166:
  %167 = phi i64 [ 0, %160 ], [ %172, %171 ]
  %168 = getelementptr inbounds nuw ptr, ptr %163, i64 %167
  %169 = load ptr, ptr %168, align 8
  %170 = icmp eq ptr %169, %152
  br i1 %170, label %174, label %171
171:
  %172 = add nuw nsw i64 %167, 1
  %173 = icmp eq i64 %172, %158
  br i1 %173, label %179, label %166
174:
  %175 = load ptr, ptr %1, align 8
  %176 = getelementptr ptr, ptr %175, i64 %128
  %177 = getelementptr ptr, ptr %176, i64 %167
  %178 = load ptr, ptr %177, align 8
  br label %179
179:
  %180 = phi ptr [ %145, %143 ], [ %165, %164 ], [ %178, %174 ], [ null, %156 ], [ null, %171 ]
  call void @Py_IncRef(ptr %180)
  %181 = load i32, ptr %24, align 8
  %182 = icmp eq i32 %181, 0
  br i1 %182, label %193, label %183
183:
  call void @Py_DecRef(ptr %180)
  %184 = call ptr @PyBytes_FromStringAndSize(ptr %24, i64 72)
  %185 = icmp eq ptr %184, null
  br i1 %185, label %193, label %186
186:
  %187 = getelementptr inbounds nuw i8, ptr %0, i64 112
  %188 = load ptr, ptr %187, align 8
  %189 = call ptr @PyObject_CallOneArg(ptr %188, ptr %184)
  call void @Py_DecRef(ptr %184)
  br label %193
190:
  call void @Py_IncRef(ptr %10)
  br label %193
191:
  %192 = call ptr @PyErr_NoMemory()
  br label %193
193:
  %194 = phi ptr [ null, %114 ], [ %180, %179 ], [ %10, %190 ], [ %192, %191 ], [ %189, %186 ], [ null, %183 ]
  call void @Py_DecRef(ptr %12)
  br label %195
195:
  %196 = phi ptr [ %194, %193 ], [ %10, %35 ]
  ret ptr %196
}
declare ptr @PyLong_AsVoidPtr(ptr)
declare void @Py_IncRef(ptr)
define ptr @eas_plan_read(ptr %0, ptr %1, i64 %2) nounwind {
  %4 = alloca %struct.given, align 8
  %5 = alloca %struct.frame, align 8
  %6 = alloca ptr, align 8
  %7 = getelementptr inbounds nuw i8, ptr %0, i64 24
  %8 = load ptr, ptr %7, align 8
  %9 = tail call ptr @PyLong_AsVoidPtr(ptr %8)
  %10 = add i64 %2, -5
  %11 = icmp ult i64 %10, -2
  br i1 %11, label %55, label %12
12:
  %13 = load ptr, ptr %1, align 8
  %14 = getelementptr inbounds nuw i8, ptr %13, i64 8
  %15 = load ptr, ptr %14, align 8
  %16 = getelementptr inbounds nuw i8, ptr %9, i64 248
  %17 = load ptr, ptr %16, align 8
  %18 = getelementptr inbounds nuw i8, ptr %17, i64 24
  %19 = load ptr, ptr %18, align 8
  %20 = icmp eq ptr %15, %19
  br i1 %20, label %21, label %55
21:
  %22 = getelementptr inbounds nuw i8, ptr %1, i64 8
  %23 = load ptr, ptr %22, align 8
  %24 = getelementptr inbounds nuw i8, ptr %23, i64 8
  %25 = load ptr, ptr %24, align 8
  %26 = getelementptr inbounds nuw i8, ptr %17, i64 32
  %27 = load ptr, ptr %26, align 8
  %28 = icmp eq ptr %25, %27
  br i1 %28, label %29, label %55
29:
  %30 = getelementptr inbounds nuw i8, ptr %13, i64 24
  %31 = getelementptr inbounds nuw i8, ptr %13, i64 16
  %32 = load i64, ptr %31, align 8
  %33 = tail call i64 @PyDict_Size(ptr %23)
  %34 = icmp eq i64 %2, 4
  br i1 %34, label %35, label %43
35:
  %36 = getelementptr inbounds nuw i8, ptr %1, i64 24
  %37 = load ptr, ptr %36, align 8
  %38 = load ptr, ptr %16, align 8
  %39 = getelementptr inbounds nuw i8, ptr %38, i64 40
  %40 = load ptr, ptr %39, align 8
  %41 = icmp eq ptr %37, %40
  %42 = zext i1 %41 to i32
  br label %43
43:
  %44 = phi i32 [ 0, %29 ], [ %42, %35 ]
  store ptr %30, ptr %4, align 8
  %45 = getelementptr inbounds nuw i8, ptr %4, i64 8
  store i64 %32, ptr %45, align 8
  %46 = getelementptr inbounds nuw i8, ptr %4, i64 16
  store ptr null, ptr %46, align 8
  %47 = getelementptr inbounds nuw i8, ptr %4, i64 24
  store ptr %23, ptr %47, align 8
  %48 = getelementptr inbounds nuw i8, ptr %4, i64 32
  store i64 %33, ptr %48, align 8
  %49 = getelementptr inbounds nuw i8, ptr %4, i64 40
  store i32 %44, ptr %49, align 8
  %50 = getelementptr inbounds nuw i8, ptr %4, i64 44
  store i32 0, ptr %50, align 4
  %51 = getelementptr inbounds nuw i8, ptr %1, i64 16
  %52 = load ptr, ptr %51, align 8
  %53 = call fastcc i64 @interpret(ptr %9, ptr %4, i64 0, ptr %52, ptr %5, ptr %6)
  %54 = icmp slt i64 %53, 0
  br i1 %54, label %55, label %62
55:
  %56 = load ptr, ptr %7, align 8
  %57 = tail call ptr @PyLong_AsVoidPtr(ptr %56)
  %58 = getelementptr inbounds nuw i8, ptr %57, i64 248
  %59 = load ptr, ptr %58, align 8
  %60 = getelementptr inbounds nuw i8, ptr %59, i64 64
  %61 = load ptr, ptr %60, align 8
  tail call void @PyErr_Clear()
  tail call void @Py_IncRef(ptr %61)
  br label %64
62:
  %63 = call ptr @PyBytes_FromStringAndSize(ptr %5, i64 2704)
  br label %64
64:
  %65 = phi ptr [ %61, %55 ], [ %63, %62 ]
  ret ptr %65
}
define internal fastcc i64 @interpret(ptr %0, ptr %1, i64 %2, ptr %3, ptr %4, ptr %5) nounwind {
  %7 = alloca i32, align 4
  %8 = getelementptr inbounds nuw i8, ptr %4, i64 2184
  store i64 0, ptr %8, align 8
  store ptr null, ptr %5, align 8
  %9 = tail call fastcc i32 @read_arguments(ptr %0, ptr %1, i64 %2, ptr %4)
  %10 = icmp eq i32 %9, 0
  br i1 %10, label %326, label %11
11:
  %12 = getelementptr inbounds nuw i8, ptr %0, i64 16
  %13 = load i64, ptr %12, align 8
  %14 = icmp sgt i64 %13, 0
  br i1 %14, label %15, label %77
15:
  %16 = getelementptr inbounds nuw i8, ptr %0, i64 24
  %17 = getelementptr inbounds nuw i8, ptr %0, i64 248
  br label %18
18:
  %19 = phi i1 [ true, %69 ], [ false, %15 ]
  %20 = phi i64 [ %70, %69 ], [ 0, %15 ]
  br label %21
21:
  %22 = phi i64 [ %66, %65 ], [ %20, %18 ]
  %23 = load ptr, ptr %16, align 8
  %24 = getelementptr inbounds nuw %struct.guard, ptr %23, i64 %22
  %25 = load i64, ptr %24, align 8
  %26 = getelementptr inbounds nuw i8, ptr %24, i64 8
  %27 = load ptr, ptr %26, align 8
  switch i64 %25, label %48 [
    i64 0, label %28
    i64 1, label %35
    i64 3, label %42
  ]
28:
  %29 = getelementptr inbounds nuw i8, ptr %24, i64 16
  %30 = load ptr, ptr %29, align 8
  %31 = tail call ptr @PyDict_GetItemWithError(ptr %27, ptr %30)
  %32 = getelementptr inbounds nuw i8, ptr %24, i64 24
  %33 = load ptr, ptr %32, align 8
  %34 = icmp eq ptr %31, %33
  br i1 %34, label %65, label %326
35:
  %36 = tail call ptr @PyCell_Get(ptr %27)
  tail call void @Py_DecRef(ptr %36)
  %37 = icmp eq ptr %36, null
  br i1 %37, label %326, label %38
38:
  %39 = getelementptr inbounds nuw i8, ptr %24, i64 16
  %40 = load ptr, ptr %39, align 8
  %41 = icmp eq ptr %36, %40
  br i1 %41, label %65, label %326
42:
  %43 = tail call ptr @PyObject_CallNoArgs(ptr %27)
  tail call void @Py_DecRef(ptr %43)
  %44 = load ptr, ptr %17, align 8
  %45 = getelementptr inbounds nuw i8, ptr %44, i64 40
  %46 = load ptr, ptr %45, align 8
  %47 = icmp eq ptr %43, %46
  br i1 %47, label %69, label %326
48:
  %49 = tail call ptr @PyFunction_GetCode(ptr %27)
  %50 = getelementptr inbounds nuw i8, ptr %24, i64 16
  %51 = load ptr, ptr %50, align 8
  %52 = icmp eq ptr %49, %51
  br i1 %52, label %53, label %326
53:
  %54 = load ptr, ptr %26, align 8
  %55 = tail call ptr @PyFunction_GetDefaults(ptr %54)
  %56 = getelementptr inbounds nuw i8, ptr %24, i64 24
  %57 = load ptr, ptr %56, align 8
  %58 = icmp eq ptr %55, %57
  br i1 %58, label %59, label %326
59:
  %60 = load ptr, ptr %26, align 8
  %61 = tail call ptr @PyFunction_GetKwDefaults(ptr %60)
  %62 = getelementptr inbounds nuw i8, ptr %24, i64 32
  %63 = load ptr, ptr %62, align 8
  %64 = icmp eq ptr %61, %63
  br i1 %64, label %65, label %326
65:
  %66 = add nuw nsw i64 %22, 1
  %67 = load i64, ptr %12, align 8
  %68 = icmp slt i64 %66, %67
  br i1 %68, label %21, label %73
69:
  %70 = add nuw nsw i64 %22, 1
  %71 = load i64, ptr %12, align 8
  %72 = icmp slt i64 %70, %71
  br i1 %72, label %18, label %74
73:
  br i1 %19, label %74, label %77
74:
  store i64 0, ptr %8, align 8
  %75 = tail call fastcc i32 @read_arguments(ptr %0, ptr %1, i64 %2, ptr %4)
  %76 = icmp eq i32 %75, 0
  br i1 %76, label %326, label %77
77:
  %78 = getelementptr inbounds nuw i8, ptr %0, i64 248
  %79 = load ptr, ptr %78, align 8
  %80 = getelementptr inbounds nuw i8, ptr %79, i64 56
  %81 = load ptr, ptr %80, align 8
  %82 = icmp eq ptr %3, %81
  br i1 %82, label %83, label %87
83:
  %84 = getelementptr inbounds nuw i8, ptr %0, i64 128
  %85 = load i64, ptr %84, align 8
  %86 = icmp eq i64 %85, 0
  br i1 %86, label %326, label %102
87:
  %88 = getelementptr inbounds nuw i8, ptr %3, i64 8
  %89 = load ptr, ptr %88, align 8
  %90 = getelementptr inbounds nuw i8, ptr %79, i64 8
  %91 = load ptr, ptr %90, align 8
  %92 = icmp eq ptr %89, %91
  br i1 %92, label %102, label %93
93:
  %94 = getelementptr inbounds nuw i8, ptr %79, i64 24
  %95 = load ptr, ptr %94, align 8
  %96 = icmp eq ptr %89, %95
  br i1 %96, label %97, label %326
97:
  %98 = getelementptr inbounds nuw i8, ptr %3, i64 16
  %99 = load i64, ptr %98, align 8
  %100 = add i64 %99, -4
  %101 = icmp ult i64 %100, -3
  br i1 %101, label %326, label %102
102:
  %103 = phi i64 [ 0, %83 ], [ %99, %97 ], [ 1, %87 ]
  %104 = getelementptr inbounds nuw i8, ptr %0, i64 136
  %105 = icmp eq i64 %103, 0
  %106 = getelementptr inbounds nuw i8, ptr %3, i64 8
  %107 = getelementptr inbounds nuw i8, ptr %79, i64 8
  %108 = getelementptr inbounds nuw i8, ptr %3, i64 24
  %109 = getelementptr inbounds nuw i8, ptr %4, i64 1648
  br label %110
110:
  %111 = phi i64 [ 1, %102 ], [ %156, %155 ]
  %112 = phi i64 [ 0, %102 ], [ %158, %155 ]
  %113 = getelementptr inbounds nuw %struct.axis, ptr %104, i64 %112
  br i1 %105, label %114, label %130
114:
  %115 = load i64, ptr %113, align 8
  %116 = icmp slt i64 %115, 0
  br i1 %116, label %121, label %117
117:
  %118 = getelementptr inbounds nuw i64, ptr %4, i64 %115
  %119 = load i64, ptr %118, align 8
  %120 = icmp sgt i64 %119, -1
  br i1 %120, label %124, label %326
121:
  %122 = getelementptr inbounds nuw i8, ptr %113, i64 8
  %123 = load i64, ptr %122, align 8
  br label %148
124:
  %125 = getelementptr inbounds nuw i8, ptr %113, i64 16
  %126 = load i64, ptr %125, align 8
  %127 = add nsw i64 %119, -1
  %128 = add i64 %127, %126
  %129 = udiv i64 %128, %126
  br label %148
130:
  %131 = icmp slt i64 %112, %103
  br i1 %131, label %132, label %151
132:
  %133 = load ptr, ptr %106, align 8
  %134 = load ptr, ptr %107, align 8
  %135 = icmp eq ptr %133, %134
  br i1 %135, label %143, label %136
136:
  %137 = getelementptr inbounds nuw ptr, ptr %108, i64 %112
  %138 = load ptr, ptr %137, align 8
  %139 = getelementptr inbounds nuw i8, ptr %138, i64 8
  %140 = load ptr, ptr %139, align 8
  %141 = icmp eq ptr %140, %134
  br i1 %141, label %143, label %142
142:
  br label %326
143:
  %144 = phi ptr [ %138, %136 ], [ %3, %132 ]
  %145 = call i64 @PyLong_AsLongLongAndOverflow(ptr %144, ptr %7)
  %146 = load i32, ptr %7, align 4
  %147 = icmp eq i32 %146, 0
  br i1 %147, label %148, label %326
148:
  %149 = phi i64 [ %145, %143 ], [ %129, %124 ], [ %123, %121 ]
  %150 = icmp ugt i64 %149, 2147483647
  br i1 %150, label %326, label %151
151:
  %152 = phi i64 [ %149, %148 ], [ 1, %130 ]
  %153 = call { i64, i1 } @llvm.smul.with.overflow.i64(i64 %111, i64 %152)
  %154 = extractvalue { i64, i1 } %153, 1
  br i1 %154, label %326, label %155
155:
  %156 = extractvalue { i64, i1 } %153, 0
  %157 = getelementptr inbounds nuw i64, ptr %109, i64 %112
  store i64 %152, ptr %157, align 8
  %158 = add nuw nsw i64 %112, 1
  %159 = icmp eq i64 %158, 3
  br i1 %159, label %160, label %110
160:
  %161 = icmp slt i64 %156, 0
  br i1 %161, label %326, label %162
162:
  %163 = getelementptr inbounds nuw i8, ptr %0, i64 32
  %164 = load i64, ptr %163, align 8
  %165 = icmp sgt i64 %164, 0
  br i1 %165, label %166, label %293
166:
  %167 = getelementptr inbounds nuw i8, ptr %0, i64 40
  %168 = load ptr, ptr %167, align 8
  %169 = getelementptr inbounds nuw i8, ptr %0, i64 80
  %170 = getelementptr inbounds nuw i8, ptr %4, i64 1088
  br label %171
171:
  %172 = phi i64 [ 0, %166 ], [ %290, %286 ]
  %173 = phi i64 [ 0, %166 ], [ %291, %286 ]
  %174 = getelementptr inbounds nuw %struct.fact, ptr %168, i64 %173
  %175 = getelementptr inbounds nuw i8, ptr %174, i64 8
  %176 = load i64, ptr %175, align 8
  %177 = getelementptr inbounds i64, ptr %4, i64 %176
  %178 = load i64, ptr %177, align 8
  %179 = load i64, ptr %174, align 8
  switch i64 %179, label %286 [
    i64 0, label %180
    i64 1, label %184
    i64 2, label %186
    i64 3, label %189
    i64 4, label %192
    i64 6, label %232
    i64 5, label %272
  ]
180:
  %181 = getelementptr inbounds nuw i8, ptr %174, i64 24
  %182 = load i64, ptr %181, align 8
  %183 = icmp eq i64 %178, %182
  br label %286
184:
  %185 = icmp sgt i64 %178, 0
  br label %286
186:
  %187 = and i64 %178, 15
  %188 = icmp eq i64 %187, 0
  br label %286
189:
  %190 = and i64 %178, 63
  %191 = icmp eq i64 %190, 0
  br label %286
192:
  %193 = getelementptr inbounds nuw i8, ptr %174, i64 16
  %194 = load i64, ptr %193, align 8
  %195 = load i64, ptr %169, align 8
  %196 = icmp sgt i64 %195, 0
  br i1 %196, label %197, label %286
197:
  %198 = phi i32 [ %227, %226 ], [ 0, %192 ]
  %199 = phi i64 [ %228, %226 ], [ 0, %192 ]
  %200 = shl nuw i64 1, %199
  %201 = and i64 %200, %194
  %202 = icmp eq i64 %201, 0
  br i1 %202, label %226, label %203
203:
  %204 = getelementptr inbounds nuw i64, ptr %4, i64 %199
  %205 = load i64, ptr %204, align 8
  %206 = getelementptr inbounds nuw i64, ptr %170, i64 %199
  %207 = load i64, ptr %206, align 8
  br label %208
208:
  %209 = phi i64 [ %224, %222 ], [ 0, %203 ]
  %210 = phi i32 [ %223, %222 ], [ %198, %203 ]
  %211 = getelementptr inbounds nuw i64, ptr %4, i64 %209
  %212 = load i64, ptr %211, align 8
  %213 = icmp eq i64 %209, %199
  br i1 %213, label %222, label %214
214:
  %215 = getelementptr inbounds nuw i64, ptr %170, i64 %209
  %216 = load i64, ptr %215, align 8
  %217 = icmp ult i64 %205, %216
  %218 = icmp ult i64 %212, %207
  %219 = select i1 %217, i1 %218, i1 false
  br i1 %219, label %220, label %222
220:
  %221 = icmp eq i64 %205, %212
  br i1 %221, label %222, label %286
222:
  %223 = phi i32 [ %210, %208 ], [ %210, %214 ], [ 1, %220 ]
  %224 = add nuw nsw i64 %209, 1
  %225 = icmp eq i64 %224, %195
  br i1 %225, label %226, label %208
226:
  %227 = phi i32 [ %198, %197 ], [ %223, %222 ]
  %228 = add nuw nsw i64 %199, 1
  %229 = icmp eq i64 %228, %195
  br i1 %229, label %230, label %197
230:
  %231 = icmp eq i32 %227, 0
  br label %286
232:
  %233 = getelementptr inbounds nuw i8, ptr %174, i64 16
  %234 = load i64, ptr %233, align 8
  %235 = load i64, ptr %169, align 8
  %236 = icmp sgt i64 %235, 0
  br i1 %236, label %237, label %286
237:
  %238 = phi i32 [ %267, %266 ], [ 0, %232 ]
  %239 = phi i64 [ %268, %266 ], [ 0, %232 ]
  %240 = shl nuw i64 1, %239
  %241 = and i64 %240, %234
  %242 = icmp eq i64 %241, 0
  br i1 %242, label %266, label %243
243:
  %244 = getelementptr inbounds nuw i64, ptr %4, i64 %239
  %245 = load i64, ptr %244, align 8
  %246 = getelementptr inbounds nuw i64, ptr %170, i64 %239
  %247 = load i64, ptr %246, align 8
  br label %248
248:
  %249 = phi i64 [ %264, %262 ], [ 0, %243 ]
  %250 = phi i32 [ %263, %262 ], [ %238, %243 ]
  %251 = getelementptr inbounds nuw i64, ptr %4, i64 %249
  %252 = load i64, ptr %251, align 8
  %253 = icmp eq i64 %249, %239
  br i1 %253, label %262, label %254
254:
  %255 = getelementptr inbounds nuw i64, ptr %170, i64 %249
  %256 = load i64, ptr %255, align 8
  %257 = icmp ult i64 %245, %256
  %258 = icmp ult i64 %252, %247
  %259 = select i1 %257, i1 %258, i1 false
  br i1 %259, label %260, label %262
260:
  %261 = icmp eq i64 %245, %252
  br i1 %261, label %262, label %286
262:
  %263 = phi i32 [ %250, %248 ], [ %250, %254 ], [ 1, %260 ]
  %264 = add nuw nsw i64 %249, 1
  %265 = icmp eq i64 %264, %235
  br i1 %265, label %266, label %248
266:
  %267 = phi i32 [ %238, %237 ], [ %263, %262 ]
  %268 = add nuw nsw i64 %239, 1
  %269 = icmp eq i64 %268, %235
  br i1 %269, label %270, label %237
270:
  %271 = icmp eq i32 %267, 1
  br label %286
272:
  %273 = load i64, ptr %169, align 8
  %274 = icmp sgt i64 %273, 0
  br i1 %274, label %275, label %286
275:
  %276 = getelementptr i64, ptr %4, i64 %273
  %277 = getelementptr i8, ptr %276, i64 40
  br label %278
278:
  %279 = phi i64 [ 0, %275 ], [ %283, %278 ]
  %280 = getelementptr i64, ptr %277, i64 %279
  %281 = load i64, ptr %280, align 8
  %282 = icmp slt i64 %281, 2147483648
  %283 = add nuw nsw i64 %279, 1
  %284 = icmp ne i64 %283, %273
  %285 = select i1 %282, i1 %284, i1 false
  br i1 %285, label %278, label %286
286:
  %287 = phi i1 [ false, %171 ], [ %183, %180 ], [ %185, %184 ], [ %188, %186 ], [ %191, %189 ], [ false, %260 ], [ false, %220 ], [ true, %272 ], [ %231, %230 ], [ true, %192 ], [ %271, %270 ], [ false, %232 ], [ %282, %278 ]
  %288 = zext i1 %287 to i64
  %289 = shl nuw i64 %288, %173
  %290 = or i64 %289, %172
  %291 = add nuw nsw i64 %173, 1
  %292 = icmp eq i64 %291, %164
  br i1 %292, label %293, label %171
293:
  %294 = phi i64 [ 0, %162 ], [ %290, %286 ]
  %295 = getelementptr inbounds nuw i8, ptr %4, i64 1640
  store i64 %294, ptr %295, align 8
  %296 = getelementptr inbounds nuw i8, ptr %0, i64 48
  %297 = load i64, ptr %296, align 8
  %298 = icmp sgt i64 %297, 0
  br i1 %298, label %299, label %301
299:
  %300 = getelementptr inbounds nuw i8, ptr %0, i64 56
  br label %303
301:
  %302 = getelementptr inbounds nuw i8, ptr %0, i64 80
  br label %317
303:
  %304 = phi i64 [ %297, %299 ], [ %314, %313 ]
  %305 = phi i64 [ 0, %299 ], [ %315, %313 ]
  %306 = load ptr, ptr %300, align 8
  %307 = getelementptr inbounds nuw %struct.variant, ptr %306, i64 %305
  %308 = load i64, ptr %307, align 8
  %309 = load i64, ptr %295, align 8
  %310 = icmp eq i64 %308, %309
  br i1 %310, label %311, label %313
311:
  store ptr %307, ptr %5, align 8
  %312 = load i64, ptr %296, align 8
  br label %313
313:
  %314 = phi i64 [ %304, %303 ], [ %312, %311 ]
  %315 = add nuw nsw i64 %305, 1
  %316 = icmp slt i64 %315, %314
  br i1 %316, label %303, label %301
317:
  %318 = phi i64 [ 0, %301 ], [ %324, %317 ]
  %319 = getelementptr inbounds nuw i64, ptr %109, i64 %318
  %320 = load i64, ptr %319, align 8
  %321 = load i64, ptr %302, align 8
  %322 = getelementptr i64, ptr %4, i64 %321
  %323 = getelementptr i64, ptr %322, i64 %318
  store i64 %320, ptr %323, align 8
  %324 = add nuw nsw i64 %318, 1
  %325 = icmp eq i64 %324, 3
  br i1 %325, label %326, label %317
326:
  %327 = phi i64 [ -1, %6 ], [ -1, %142 ], [ -1, %74 ], [ -1, %160 ], [ -1, %117 ], [ -1, %48 ], [ -1, %97 ], [ -1, %93 ], [ -1, %83 ], [ %156, %317 ], [ -1, %151 ], [ -1, %143 ], [ -1, %148 ], [ -1, %38 ], [ -1, %28 ], [ -1, %35 ], [ -1, %59 ], [ -1, %53 ], [ -1, %42 ]
  ret i64 %327
}
declare void @PyErr_Clear()
declare ptr @PyBytes_FromStringAndSize(ptr, i64)
define ptr @eas_plan_call(ptr %0, ptr %1, i64 %2, ptr %3) nounwind {
  %5 = alloca [65 x ptr], align 16
  %6 = alloca ptr, align 8
  %7 = alloca ptr, align 8
  %8 = alloca ptr, align 8
  %9 = alloca [2 x ptr], align 16
  %10 = alloca [65 x ptr], align 16
  %11 = alloca %struct.given, align 8
  %12 = getelementptr inbounds nuw i8, ptr %0, i64 24
  %13 = load ptr, ptr %12, align 8
  %14 = getelementptr inbounds nuw i8, ptr %13, i64 160
  %15 = load ptr, ptr %14, align 8
  %16 = and i64 %2, 9223372036854775807
  store ptr %1, ptr %11, align 8
  %17 = getelementptr inbounds nuw i8, ptr %11, i64 8
  store i64 %16, ptr %17, align 8
  %18 = getelementptr inbounds nuw i8, ptr %11, i64 16
  store ptr %3, ptr %18, align 8
  %19 = getelementptr inbounds nuw i8, ptr %11, i64 24
  store ptr null, ptr %19, align 8
  %20 = getelementptr inbounds nuw i8, ptr %11, i64 32
  %21 = icmp eq ptr %3, null
  br i1 %21, label %25, label %22
22:
  %23 = getelementptr inbounds nuw i8, ptr %3, i64 16
  %24 = load i64, ptr %23, align 8
  br label %25
25:
  %26 = phi i64 [ %24, %22 ], [ 0, %4 ]
  store i64 %26, ptr %20, align 8
  %27 = getelementptr inbounds nuw i8, ptr %11, i64 40
  store i32 0, ptr %27, align 8
  %28 = getelementptr inbounds nuw i8, ptr %11, i64 44
  store i32 0, ptr %28, align 4
  %29 = getelementptr inbounds nuw i8, ptr %0, i64 32
  %30 = load ptr, ptr %29, align 8
  %31 = icmp eq ptr %30, null
  br i1 %31, label %32, label %35
32:
  %33 = getelementptr inbounds nuw i8, ptr %15, i64 56
  %34 = load ptr, ptr %33, align 8
  br label %35
35:
  %36 = phi ptr [ %34, %32 ], [ %30, %25 ]
  %37 = icmp eq i64 %26, 0
  br i1 %37, label %95, label %38
38:
  %39 = getelementptr inbounds nuw i8, ptr %13, i64 152
  %40 = load ptr, ptr %39, align 8
  %41 = icmp sgt i64 %26, 0
  br i1 %41, label %42, label %95
42:
  %43 = getelementptr inbounds nuw i8, ptr %3, i64 24
  br label %44
44:
  %45 = phi i64 [ 0, %42 ], [ %50, %49 ]
  %46 = getelementptr inbounds nuw ptr, ptr %43, i64 %45
  %47 = load ptr, ptr %46, align 8
  %48 = icmp eq ptr %47, %40
  br i1 %48, label %52, label %49
49:
  %50 = add nuw nsw i64 %45, 1
  %51 = icmp eq i64 %50, %26
  br i1 %51, label %95, label %44
52:
  %53 = getelementptr ptr, ptr %1, i64 %16
  %54 = getelementptr ptr, ptr %53, i64 %45
  %55 = load ptr, ptr %54, align 8
  %56 = icmp eq ptr %55, null
  %57 = or i1 %56, %31
  %58 = select i1 %56, ptr %36, ptr %55
  %59 = xor i1 %56, true
  %60 = zext i1 %59 to i64
  br i1 %57, label %95, label %61
61:
  %62 = getelementptr inbounds nuw i8, ptr %3, i64 16
  %63 = load i64, ptr %62, align 8
  %64 = add i64 %63, %16
  %65 = icmp slt i64 %64, 65
  br i1 %65, label %74, label %66
66:
  %67 = shl i64 %64, 3
  %68 = add i64 %67, 8
  %69 = tail call ptr @PyMem_Malloc(i64 %68)
  %70 = icmp eq ptr %69, null
  br i1 %70, label %72, label %71
71:
  store ptr %0, ptr %69, align 8
  br label %76
72:
  %73 = tail call ptr @PyErr_NoMemory()
  br label %93
74:
  store ptr %0, ptr %10, align 16
  %75 = icmp sgt i64 %64, 0
  br i1 %75, label %76, label %78
76:
  %77 = phi ptr [ %69, %71 ], [ %10, %74 ]
  br label %85
78:
  %79 = phi ptr [ %10, %74 ], [ %77, %85 ]
  %80 = getelementptr inbounds nuw i8, ptr %0, i64 40
  %81 = load ptr, ptr %80, align 8
  %82 = add nuw i64 %16, 1
  %83 = call ptr @PyObject_Vectorcall(ptr %81, ptr %79, i64 %82, ptr %3)
  %84 = icmp eq ptr %79, %10
  br i1 %84, label %93, label %92
85:
  %86 = phi i64 [ %89, %85 ], [ 0, %76 ]
  %87 = getelementptr inbounds nuw ptr, ptr %1, i64 %86
  %88 = load ptr, ptr %87, align 8
  %89 = add nuw nsw i64 %86, 1
  %90 = getelementptr inbounds nuw ptr, ptr %77, i64 %89
  store ptr %88, ptr %90, align 8
  %91 = icmp eq i64 %89, %64
  br i1 %91, label %78, label %85
92:
  call void @PyMem_Free(ptr %79)
  br label %93
93:
  %94 = phi ptr [ %73, %72 ], [ %83, %92 ], [ %83, %78 ]
  br label %195
95:
  %96 = phi ptr [ %36, %35 ], [ %36, %38 ], [ %58, %52 ], [ %36, %49 ]
  %97 = phi i64 [ 0, %35 ], [ 0, %38 ], [ %60, %52 ], [ 0, %49 ]
  %98 = getelementptr inbounds nuw i8, ptr %13, i64 136
  %99 = load ptr, ptr %98, align 8
  %100 = tail call i64 @PySet_Size(ptr %99)
  %101 = icmp eq i64 %100, 0
  br i1 %101, label %102, label %158
102:
  %103 = getelementptr inbounds nuw i8, ptr %13, i64 144
  %104 = load ptr, ptr %103, align 8
  %105 = getelementptr inbounds nuw i8, ptr %104, i64 16
  %106 = load i64, ptr %105, align 8
  %107 = icmp eq i64 %106, 0
  br i1 %107, label %108, label %158
108:
  %109 = load i64, ptr %13, align 8
  %110 = icmp sgt i64 %109, 0
  br i1 %110, label %111, label %158
111:
  %112 = getelementptr inbounds nuw i8, ptr %13, i64 8
  %113 = getelementptr inbounds nuw i8, ptr %15, i64 64
  br label %114
114:
  %115 = phi i64 [ 0, %111 ], [ %155, %154 ]
  %116 = getelementptr inbounds nuw ptr, ptr %112, i64 %115
  %117 = load ptr, ptr %116, align 8
  %118 = call fastcc ptr @launch_plan(ptr %117, ptr %11, i64 %97, ptr %96)
  %119 = load ptr, ptr %113, align 8
  %120 = icmp eq ptr %118, %119
  br i1 %120, label %154, label %121
121:
  %122 = getelementptr inbounds nuw ptr, ptr %112, i64 %115
  %123 = icmp ne ptr %118, null
  %124 = icmp ne i64 %115, 0
  %125 = and i1 %124, %123
  br i1 %125, label %126, label %134
126:
  %127 = load i64, ptr %13, align 8
  %128 = icmp slt i64 %115, %127
  br i1 %128, label %129, label %195
129:
  %130 = load ptr, ptr %122, align 8
  %131 = icmp eq ptr %130, %117
  br i1 %131, label %132, label %195
132:
  %133 = load ptr, ptr %112, align 8
  store ptr %133, ptr %122, align 8
  store ptr %117, ptr %112, align 8
  br label %195
134:
  br i1 %123, label %195, label %135
135:
  call void @PyErr_Fetch(ptr %6, ptr %7, ptr %8)
  call void @PyErr_NormalizeException(ptr %6, ptr %7, ptr %8)
  %136 = load ptr, ptr %8, align 8
  %137 = icmp eq ptr %136, null
  br i1 %137, label %141, label %138
138:
  %139 = load ptr, ptr %7, align 8
  %140 = call i32 @PyException_SetTraceback(ptr %139, ptr %136)
  br label %141
141:
  store ptr %0, ptr %9, align 16
  %142 = getelementptr inbounds nuw i8, ptr %9, i64 8
  %143 = load ptr, ptr %7, align 8
  store ptr %143, ptr %142, align 8
  %144 = getelementptr inbounds nuw i8, ptr %0, i64 48
  %145 = load ptr, ptr %144, align 8
  %146 = call ptr @PyObject_Vectorcall(ptr %145, ptr %9, i64 2, ptr null)
  %147 = icmp eq ptr %146, null
  br i1 %147, label %148, label %149
148:
  call void @PyErr_Clear()
  br label %149
149:
  call void @Py_DecRef(ptr %146)
  %150 = load ptr, ptr %8, align 8
  call void @Py_DecRef(ptr %150)
  %151 = load ptr, ptr %6, align 8
  %152 = load ptr, ptr %7, align 8
  %153 = call ptr @PyException_GetTraceback(ptr %152)
  call void @PyErr_Restore(ptr %151, ptr %152, ptr %153)
  br label %195
154:
  tail call void @Py_DecRef(ptr %118)
  %155 = add nuw nsw i64 %115, 1
  %156 = load i64, ptr %13, align 8
  %157 = icmp slt i64 %155, %156
  br i1 %157, label %114, label %158
158:
  br i1 %21, label %162, label %159
159:
  %160 = getelementptr inbounds nuw i8, ptr %3, i64 16
  %161 = load i64, ptr %160, align 8
  br label %162
162:
  %163 = phi i64 [ %161, %159 ], [ 0, %158 ]
  %164 = add i64 %163, %16
  %165 = icmp slt i64 %164, 65
  br i1 %165, label %174, label %166
166:
  %167 = shl i64 %164, 3
  %168 = add i64 %167, 8
  %169 = tail call ptr @PyMem_Malloc(i64 %168)
  %170 = icmp eq ptr %169, null
  br i1 %170, label %172, label %171
171:
  store ptr %0, ptr %169, align 8
  br label %176
172:
  %173 = tail call ptr @PyErr_NoMemory()
  br label %193
174:
  store ptr %0, ptr %5, align 16
  %175 = icmp sgt i64 %164, 0
  br i1 %175, label %176, label %178
176:
  %177 = phi ptr [ %169, %171 ], [ %5, %174 ]
  br label %185
178:
  %179 = phi ptr [ %5, %174 ], [ %177, %185 ]
  %180 = getelementptr inbounds nuw i8, ptr %0, i64 40
  %181 = load ptr, ptr %180, align 8
  %182 = add nuw i64 %16, 1
  %183 = call ptr @PyObject_Vectorcall(ptr %181, ptr %179, i64 %182, ptr %3)
  %184 = icmp eq ptr %179, %5
  br i1 %184, label %193, label %192
185:
  %186 = phi i64 [ %189, %185 ], [ 0, %176 ]
  %187 = getelementptr inbounds nuw ptr, ptr %1, i64 %186
  %188 = load ptr, ptr %187, align 8
  %189 = add nuw nsw i64 %186, 1
  %190 = getelementptr inbounds nuw ptr, ptr %177, i64 %189
  store ptr %188, ptr %190, align 8
  %191 = icmp eq i64 %189, %164
  br i1 %191, label %178, label %185
192:
  call void @PyMem_Free(ptr %179)
  br label %193
193:
  %194 = phi ptr [ %173, %172 ], [ %183, %192 ], [ %183, %178 ]
  br label %195
195:
  %196 = phi ptr [ %194, %193 ], [ %94, %93 ], [ %118, %126 ], [ %118, %129 ], [ %118, %132 ], [ null, %149 ], [ %118, %134 ]
  ret ptr %196
}
declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)
declare i64 @PySet_Size(ptr)
declare void @Py_DecRef(ptr)
define i32 @eas_pool_run(ptr %0, ptr %1, i64 %2, i64 %3, i64 %4, i64 %5, ptr %6, ptr %7, i64 %8) nounwind {
  %10 = alloca %struct.launch, align 8
  %11 = alloca %struct.arena, align 8
  store ptr %0, ptr %10, align 8
  %12 = getelementptr inbounds nuw i8, ptr %10, i64 8
  store ptr %1, ptr %12, align 8
  %13 = getelementptr inbounds nuw i8, ptr %10, i64 16
  store i64 %2, ptr %13, align 8
  %14 = getelementptr inbounds nuw i8, ptr %10, i64 24
  store i64 %5, ptr %14, align 8
  %15 = getelementptr inbounds nuw i8, ptr %10, i64 32
  store ptr null, ptr %15, align 8
  %16 = getelementptr inbounds nuw i8, ptr %10, i64 40
  store ptr %6, ptr %16, align 8
  %17 = getelementptr inbounds nuw i8, ptr %10, i64 48
  store ptr %7, ptr %17, align 8
  %18 = getelementptr inbounds nuw i8, ptr %10, i64 56
  %19 = tail call i64 @llvm.smax.i64(i64 %4, i64 1)
  store i64 %19, ptr %18, align 8
  %20 = icmp slt i64 %2, 1
  br i1 %20, label %67, label %21
21:
  %22 = icmp eq i64 %5, 0
  br i1 %22, label %23, label %26
23:
  %24 = icmp ne i64 %8, 0
  %25 = call fastcc i32 @run_grid(ptr %10, i64 %3, i1 zeroext %24)
  br label %67
26:
  %27 = load i8, ptr @has_arena_key, align 1
  %28 = trunc nuw i8 %27 to i1
  br i1 %28, label %29, label %39
29:
  %30 = load i32, ptr @arena_key, align 4
  %31 = tail call ptr @pthread_getspecific(i32 %30)
  %32 = icmp eq ptr %31, null
  br i1 %32, label %33, label %40
33:
  %34 = tail call ptr @calloc(i64 1, i64 24)
  %35 = icmp eq ptr %34, null
  br i1 %35, label %39, label %36
36:
  %37 = load i32, ptr @arena_key, align 4
  %38 = tail call i32 @pthread_setspecific(i32 %37, ptr %34)
  br label %40
39:
  br label %65
40:
  %41 = phi ptr [ %34, %36 ], [ %31, %29 ]
  call void @llvm.memset.p0.i64(ptr align 8 %11, i8 0, i64 24, i1 false)
  %42 = getelementptr inbounds nuw i8, ptr %41, i64 16
  %43 = load i8, ptr %42, align 8
  %44 = trunc nuw i8 %43 to i1
  %45 = select i1 %44, ptr %11, ptr %41
  %46 = select i1 %44, ptr %11, ptr %41
  %47 = getelementptr inbounds nuw i8, ptr %46, i64 8
  %48 = load i64, ptr %47, align 8
  %49 = icmp slt i64 %48, %5
  br i1 %49, label %50, label %58
50:
  %51 = add i64 %5, 4095
  %52 = and i64 %51, -4096
  %53 = load ptr, ptr %45, align 8
  tail call void @free(ptr %53)
  call void @llvm.memset.p0.i64(ptr align 8 %45, i8 0, i64 24, i1 false)
  %54 = call i32 @posix_memalign(ptr %45, i64 64, i64 %52)
  %55 = icmp eq i32 %54, 0
  br i1 %55, label %56, label %57
56:
  store i64 %52, ptr %47, align 8
  br label %58
57:
  store ptr null, ptr %45, align 8
  br label %65
58:
  %59 = load ptr, ptr %45, align 8
  call void @llvm.memset.p0.i64(ptr align 1 %59, i8 0, i64 64, i1 false)
  store ptr %59, ptr %15, align 8
  %60 = getelementptr inbounds nuw i8, ptr %11, i64 16
  %61 = select i1 %44, ptr %60, ptr %42
  store i8 1, ptr %61, align 8
  %62 = icmp ne i64 %8, 0
  %63 = call fastcc i32 @run_grid(ptr %10, i64 %3, i1 zeroext %62)
  store i8 0, ptr %61, align 8
  %64 = load ptr, ptr %11, align 8
  call void @free(ptr %64)
  br label %65
65:
  %66 = phi i32 [ %63, %58 ], [ 12, %39 ], [ 12, %57 ]
  br label %67
67:
  %68 = phi i32 [ %25, %23 ], [ %66, %65 ], [ 0, %9 ]
  ret i32 %68
}
define internal fastcc i32 @run_grid(ptr %0, i64 %1, i1 zeroext %2) nounwind {
  %4 = alloca %struct.timespec, align 8
  %5 = alloca %struct.timespec, align 8
  %6 = alloca %struct.timespec, align 8
  %7 = alloca %struct.timespec, align 8
  %8 = alloca %struct.deal, align 8
  %9 = alloca %struct.deal, align 8
  %10 = alloca %struct.timespec, align 8
  %11 = alloca %struct.deal, align 8
  %12 = alloca %struct.timespec, align 8
  %13 = alloca %struct.timespec, align 8
  %14 = alloca i32, align 4
  %15 = alloca %struct.deal, align 8
  %16 = alloca %struct.deal, align 8
  store i32 0, ptr %14, align 4
  %17 = getelementptr inbounds nuw i8, ptr %0, i64 16
  %18 = load i64, ptr %17, align 8
  %19 = getelementptr inbounds nuw i8, ptr %0, i64 56
  %20 = load i64, ptr %19, align 8
  %21 = getelementptr inbounds nuw i8, ptr %0, i64 48
  %22 = load ptr, ptr %21, align 8
  %23 = icmp eq ptr %22, null
  br i1 %23, label %24, label %25
24:
  store ptr %14, ptr %21, align 8
  br label %25
25:
  %26 = icmp ne i64 %18, 1
  %27 = icmp sgt i64 %18, %1
  %28 = and i1 %26, %27
  br i1 %28, label %69, label %29
29:
  %30 = call i32 @clock_gettime(i32 1, ptr %13)
  %31 = load i64, ptr %13, align 8
  %32 = getelementptr inbounds nuw i8, ptr %13, i64 8
  %33 = load i64, ptr %32, align 8
  %34 = load ptr, ptr %0, align 8
  %35 = getelementptr inbounds nuw i8, ptr %0, i64 8
  %36 = load ptr, ptr %35, align 8
  %37 = getelementptr inbounds nuw i8, ptr %0, i64 32
  %38 = load ptr, ptr %37, align 8
  call void %34(ptr %36, i64 0, i64 %18, ptr %38)
  %39 = getelementptr inbounds nuw i8, ptr %0, i64 40
  %40 = load ptr, ptr %39, align 8
  %41 = call i32 @clock_gettime(i32 1, ptr %12)
  %42 = load i64, ptr %12, align 8
  %43 = getelementptr inbounds nuw i8, ptr %12, i64 8
  %44 = load i64, ptr %43, align 8
  %45 = icmp ne ptr %40, null
  %46 = icmp ne i64 %18, 0
  %47 = and i1 %46, %45
  br i1 %47, label %48, label %264
48:
  %49 = sub i64 %42, %31
  %50 = mul i64 %49, 1000000000
  %51 = sub i64 %44, %33
  %52 = add i64 %51, %50
  %53 = mul i64 %52, 1000
  %54 = udiv i64 %53, %18
  %55 = call i64 @llvm.umax.i64(i64 %54, i64 1)
  %56 = load atomic i64, ptr %40 monotonic, align 8
  %57 = icmp ult i64 %55, %56
  br i1 %57, label %58, label %62
58:
  %59 = sub nuw i64 %56, %55
  %60 = lshr i64 %59, 2
  %61 = sub i64 %56, %60
  br label %67
62:
  %63 = icmp eq i64 %56, 0
  br i1 %63, label %67, label %64
64:
  %65 = shl i64 %56, 2
  %66 = call i64 @llvm.umin.i64(i64 %55, i64 %65)
  br label %67
67:
  %68 = phi i64 [ %61, %58 ], [ %66, %64 ], [ %55, %62 ]
  store atomic i64 %68, ptr %40 monotonic, align 8
  br label %264
69:
  %70 = getelementptr inbounds nuw i8, ptr %0, i64 40
  %71 = load ptr, ptr %70, align 8
  %72 = icmp eq ptr %71, null
  br i1 %72, label %76, label %73
73:
  %74 = load atomic i64, ptr %71 monotonic, align 8
  %75 = icmp eq i64 %1, 0
  br i1 %75, label %83, label %78
76:
  %77 = icmp eq i64 %1, 0
  br i1 %77, label %248, label %78
78:
  store i64 %1, ptr %15, align 8
  %79 = getelementptr inbounds nuw i8, ptr %15, i64 8
  store i64 9223372036854775807, ptr %79, align 8
  %80 = getelementptr inbounds nuw i8, ptr %15, i64 16
  store i64 %1, ptr %80, align 8
  %81 = getelementptr inbounds nuw i8, ptr %15, i64 24
  %82 = add i64 %20, -1
  store i64 %82, ptr %81, align 8
  call fastcc void @spread(ptr %0, i64 0, ptr %15)
  br label %259
83:
  %84 = icmp eq i64 %74, 0
  br i1 %84, label %248, label %85
85:
  %86 = uitofp i64 %74 to double
  %87 = sitofp i64 %18 to double
  %88 = fmul double %87, %86
  %89 = icmp slt i64 %20, 2
  %90 = fcmp ugt double %88, 1.000000e+07
  br i1 %90, label %91, label %114
91:
  %92 = fcmp ugt double %88, 1.000000e+08
  %93 = select i1 %92, i1 true, i1 %89
  br i1 %93, label %228, label %94
94:
  %95 = call i32 @clock_gettime(i32 1, ptr %10)
  %96 = load i64, ptr %10, align 8
  %97 = mul i64 %96, 1000000000
  %98 = getelementptr inbounds nuw i8, ptr %10, i64 8
  %99 = load i64, ptr %98, align 8
  %100 = add i64 %97, %99
  %101 = load atomic i64, ptr @last_asked monotonic, align 8
  %102 = sub i64 %100, %101
  store atomic i64 %100, ptr @last_asked monotonic, align 8
  %103 = load atomic i64, ptr @team_run monotonic, align 8
  %104 = icmp eq i64 %103, 0
  %105 = icmp sgt i64 %102, 400000
  %106 = select i1 %104, i1 %105, i1 false
  br i1 %106, label %107, label %228
107:
  %108 = load atomic i32, ptr @parked monotonic, align 4
  %109 = sext i32 %108 to i64
  %110 = load atomic i64, ptr @workers monotonic, align 8
  %111 = icmp sgt i64 %110, %109
  br i1 %111, label %228, label %112
112:
  %113 = load i64, ptr %17, align 8
  br label %114
114:
  %115 = phi i64 [ %113, %112 ], [ %18, %85 ]
  %116 = lshr i64 %115, 3
  %117 = call i64 @llvm.umax.i64(i64 %116, i64 1)
  %118 = select i1 %2, i64 %117, i64 1
  %119 = call i32 @clock_gettime(i32 1, ptr %7)
  %120 = load i64, ptr %7, align 8
  %121 = mul i64 %120, -1000000000
  %122 = getelementptr inbounds nuw i8, ptr %7, i64 8
  %123 = load i64, ptr %122, align 8
  %124 = sub i64 %121, %123
  %125 = load ptr, ptr %0, align 8
  %126 = getelementptr inbounds nuw i8, ptr %0, i64 8
  %127 = load ptr, ptr %126, align 8
  %128 = getelementptr inbounds nuw i8, ptr %0, i64 32
  %129 = load ptr, ptr %128, align 8
  call void %125(ptr %127, i64 0, i64 %118, ptr %129)
  %130 = call i32 @clock_gettime(i32 1, ptr %6)
  %131 = load i64, ptr %6, align 8
  %132 = mul i64 %131, 1000000000
  %133 = getelementptr inbounds nuw i8, ptr %6, i64 8
  %134 = load i64, ptr %133, align 8
  %135 = add i64 %134, %124
  %136 = add i64 %135, %132
  %137 = icmp slt i64 %136, 12001
  %138 = icmp ugt i64 %116, %118
  %139 = select i1 %137, i1 %138, i1 false
  br i1 %139, label %140, label %151
140:
  %141 = load ptr, ptr %0, align 8
  %142 = load ptr, ptr %126, align 8
  %143 = load ptr, ptr %128, align 8
  call void %141(ptr %142, i64 %118, i64 %117, ptr %143)
  %144 = call i32 @clock_gettime(i32 1, ptr %5)
  %145 = load i64, ptr %5, align 8
  %146 = mul i64 %145, 1000000000
  %147 = getelementptr inbounds nuw i8, ptr %5, i64 8
  %148 = load i64, ptr %147, align 8
  %149 = add i64 %148, %124
  %150 = add i64 %149, %146
  br label %151
151:
  %152 = phi i64 [ %150, %140 ], [ %136, %114 ]
  %153 = phi i64 [ %117, %140 ], [ %118, %114 ]
  %154 = icmp sgt i64 %152, 12000
  br i1 %154, label %155, label %184
155:
  %156 = load ptr, ptr %70, align 8
  %157 = icmp eq ptr %156, null
  br i1 %157, label %175, label %158
158:
  %159 = mul i64 %152, 1000
  %160 = udiv i64 %159, %153
  %161 = call i64 @llvm.umax.i64(i64 %160, i64 1)
  %162 = load atomic i64, ptr %156 monotonic, align 8
  %163 = icmp ult i64 %161, %162
  br i1 %163, label %164, label %168
164:
  %165 = sub nuw i64 %162, %161
  %166 = lshr i64 %165, 2
  %167 = sub i64 %162, %166
  br label %173
168:
  %169 = icmp eq i64 %162, 0
  br i1 %169, label %173, label %170
170:
  %171 = shl i64 %162, 2
  %172 = call i64 @llvm.umin.i64(i64 %161, i64 %171)
  br label %173
173:
  %174 = phi i64 [ %167, %164 ], [ %172, %170 ], [ %161, %168 ]
  store atomic i64 %174, ptr %156 monotonic, align 8
  br label %175
175:
  store i64 1, ptr %8, align 8
  %176 = getelementptr inbounds nuw i8, ptr %8, i64 8
  %177 = load i64, ptr %19, align 8
  %178 = icmp sgt i64 %177, 1
  %179 = shl nuw i64 %177, 1
  %180 = select i1 %178, i64 %179, i64 1
  store i64 %180, ptr %176, align 8
  %181 = getelementptr inbounds nuw i8, ptr %8, i64 16
  store i64 1, ptr %181, align 8
  %182 = getelementptr inbounds nuw i8, ptr %8, i64 24
  %183 = add i64 %177, -1
  store i64 %183, ptr %182, align 8
  call fastcc void @spread(ptr %0, i64 %153, ptr %8)
  br label %259
184:
  %185 = mul i64 %153, 100000
  %186 = call i64 @llvm.umax.i64(i64 %152, i64 1)
  %187 = udiv i64 %185, %186
  %188 = call i64 @llvm.umax.i64(i64 %187, i64 1)
  %189 = sub i64 %115, %153
  %190 = icmp sge i64 %188, %189
  %191 = select i1 %2, i1 true, i1 %190
  br i1 %191, label %196, label %192
192:
  store i64 1, ptr %9, align 8
  %193 = getelementptr inbounds nuw i8, ptr %9, i64 8
  store i64 1, ptr %193, align 8
  %194 = getelementptr inbounds nuw i8, ptr %9, i64 16
  store i64 %188, ptr %194, align 8
  %195 = getelementptr inbounds nuw i8, ptr %9, i64 24
  store i64 0, ptr %195, align 8
  call fastcc void @spread(ptr %0, i64 %153, ptr %9)
  br label %259
196:
  %197 = load ptr, ptr %0, align 8
  %198 = load ptr, ptr %126, align 8
  %199 = load ptr, ptr %128, align 8
  call void %197(ptr %198, i64 %153, i64 %115, ptr %199)
  %200 = load ptr, ptr %70, align 8
  %201 = call i32 @clock_gettime(i32 1, ptr %4)
  %202 = load i64, ptr %4, align 8
  %203 = getelementptr inbounds nuw i8, ptr %4, i64 8
  %204 = load i64, ptr %203, align 8
  %205 = icmp ne ptr %200, null
  %206 = icmp ne i64 %115, 0
  %207 = and i1 %206, %205
  br i1 %207, label %208, label %259
208:
  %209 = mul i64 %202, 1000000000
  %210 = add i64 %204, %124
  %211 = add i64 %210, %209
  %212 = mul i64 %211, 1000
  %213 = udiv i64 %212, %115
  %214 = call i64 @llvm.umax.i64(i64 %213, i64 1)
  %215 = load atomic i64, ptr %200 monotonic, align 8
  %216 = icmp ult i64 %214, %215
  br i1 %216, label %217, label %221
217:
  %218 = sub nuw i64 %215, %214
  %219 = lshr i64 %218, 2
  %220 = sub i64 %215, %219
  br label %226
221:
  %222 = icmp eq i64 %215, 0
  br i1 %222, label %226, label %223
223:
  %224 = shl i64 %215, 2
  %225 = call i64 @llvm.umin.i64(i64 %214, i64 %224)
  br label %226
226:
  %227 = phi i64 [ %220, %217 ], [ %225, %223 ], [ %214, %221 ]
  store atomic i64 %227, ptr %200 monotonic, align 8
  br label %259
228:
  %229 = load i64, ptr %19, align 8
  %230 = add i64 %229, -1
  %231 = fdiv double %88, 5.000000e+06
  %232 = fcmp oge double %231, 1.024000e+03
  %233 = fptosi double %231 to i64
  %234 = udiv i64 2000000, %74
  %235 = call i64 @llvm.umax.i64(i64 %234, i64 1)
  store i64 %235, ptr %11, align 8
  %236 = getelementptr inbounds nuw i8, ptr %11, i64 8
  %237 = shl i64 %229, 1
  %238 = select i1 %89, i64 1, i64 %237
  store i64 %238, ptr %236, align 8
  %239 = getelementptr inbounds nuw i8, ptr %11, i64 16
  br i1 %2, label %240, label %243
240:
  %241 = udiv i64 10000000000, %74
  %242 = call i64 @llvm.umax.i64(i64 %241, i64 1)
  br label %243
243:
  %244 = phi i64 [ %242, %240 ], [ 1, %228 ]
  store i64 %244, ptr %239, align 8
  %245 = getelementptr inbounds nuw i8, ptr %11, i64 24
  %246 = call i64 @llvm.umin.i64(i64 %233, i64 %230)
  %247 = select i1 %232, i64 %230, i64 %246
  store i64 %247, ptr %245, align 8
  call fastcc void @spread(ptr %0, i64 0, ptr %11)
  br label %259
248:
  %249 = shl i64 %20, 4
  %250 = sdiv i64 %18, %249
  %251 = call i64 @llvm.umax.i64(i64 %250, i64 1)
  store i64 %251, ptr %16, align 8
  %252 = getelementptr inbounds nuw i8, ptr %16, i64 8
  %253 = icmp sgt i64 %20, 1
  %254 = shl i64 %20, 1
  %255 = select i1 %253, i64 %254, i64 1
  store i64 %255, ptr %252, align 8
  %256 = getelementptr inbounds nuw i8, ptr %16, i64 16
  store i64 1, ptr %256, align 8
  %257 = getelementptr inbounds nuw i8, ptr %16, i64 24
  %258 = add i64 %20, -1
  store i64 %258, ptr %257, align 8
  call fastcc void @spread(ptr %0, i64 0, ptr %16)
  br label %259
259:
  %260 = load ptr, ptr %21, align 8
  %261 = load atomic i32, ptr %260 monotonic, align 4
  %262 = icmp eq i32 %261, 0
  %263 = select i1 %262, i32 0, i32 4
  br label %264
264:
  %265 = phi i32 [ %263, %259 ], [ 0, %29 ], [ 0, %67 ]
  ret i32 %265
}
declare void @free(ptr allocptr)
define i32 @eas_pool_run_from_python(ptr %0, ptr %1, i64 %2, i64 %3, i64 %4, i64 %5, ptr %6, ptr %7, i64 %8) nounwind {
  %10 = tail call ptr @PyEval_SaveThread()
  %11 = tail call i32 @eas_pool_run(ptr %0, ptr %1, i64 %2, i64 %3, i64 %4, i64 %5, ptr %6, ptr %7, i64 %8)
  tail call void @PyEval_RestoreThread(ptr %10)
  ret i32 %11
}
declare ptr @PyEval_SaveThread()
declare void @PyEval_RestoreThread(ptr)
define void @eas_pool_reset() nounwind {
  %1 = tail call i32 @pthread_mutex_init(ptr @pool_lock, ptr null)
  %2 = tail call i32 @pthread_cond_init(ptr @work, ptr null)
  %3 = tail call i32 @pthread_cond_init(ptr @done, ptr null)
  store ptr null, ptr @jobs, align 8
  store i32 0, ptr @parked, align 4
  store i64 0, ptr @workers, align 8
  store ptr null, ptr @team_run, align 8
  %4 = tail call i32 @getpid()
  store i32 %4, ptr @owner, align 4
  %5 = load i8, ptr @has_arena_key, align 1
  %6 = trunc nuw i8 %5 to i1
  br i1 %6, label %11, label %7
7:
  %8 = tail call i32 @pthread_key_create(ptr @arena_key, ptr @drop_arena)
  %9 = icmp eq i32 %8, 0
  %10 = zext i1 %9 to i8
  store i8 %10, ptr @has_arena_key, align 1
  br label %11
11:
  ret void
}
declare i32 @pthread_mutex_init(ptr, ptr)
declare i32 @pthread_cond_init(ptr, ptr)
declare i32 @getpid()
define void @eas_pool_main_thread(i64 %0) nounwind {
  store i64 %0, ptr @main_thread, align 8
  ret void
}
define void @eas_pool_share(ptr %0, ptr %1) nounwind {
  store ptr %1, ptr @team_size, align 8
  %3 = ptrtoint ptr %0 to i64
  store atomic i64 %3, ptr @team_run release, align 8
  ret void
}
define i64 @eas_replay(ptr %0, i64 %1, ptr %2) nounwind {
  %4 = tail call ptr @PyEval_SaveThread()
  %5 = icmp sgt i64 %1, 0
  br i1 %5, label %8, label %6
6:
  %7 = phi i64 [ 0, %3 ], [ %42, %32 ]
  tail call void @PyEval_RestoreThread(ptr %4)
  ret i64 %7
8:
  %9 = phi i64 [ %43, %32 ], [ 0, %3 ]
  %10 = getelementptr inbounds nuw %struct.row, ptr %0, i64 %9
  %11 = getelementptr inbounds nuw i8, ptr %10, i64 56
  %12 = load ptr, ptr %11, align 8
  store i32 0, ptr %12, align 4
  %13 = getelementptr inbounds nuw i8, ptr %10, i64 16
  %14 = load i64, ptr %13, align 8
  %15 = icmp eq i64 %14, 1
  %16 = getelementptr inbounds nuw i8, ptr %10, i64 32
  %17 = load i64, ptr %16, align 8
  %18 = icmp eq i64 %17, 0
  %19 = select i1 %15, i1 %18, i1 false
  %20 = load ptr, ptr %10, align 8
  %21 = getelementptr inbounds nuw i8, ptr %10, i64 8
  %22 = load ptr, ptr %21, align 8
  br i1 %19, label %23, label %24
23:
  tail call void %20(ptr %22, i64 0, i64 1, ptr null)
  br label %32
24:
  %25 = getelementptr inbounds nuw i8, ptr %10, i64 24
  %26 = load i64, ptr %25, align 8
  %27 = getelementptr inbounds nuw i8, ptr %10, i64 40
  %28 = load ptr, ptr %27, align 8
  %29 = getelementptr inbounds nuw i8, ptr %10, i64 48
  %30 = load i64, ptr %29, align 8
  %31 = tail call i32 @eas_pool_run(ptr %20, ptr %22, i64 %14, i64 0, i64 %26, i64 %17, ptr %28, ptr %2, i64 %30)
  br label %32
32:
  %33 = phi i32 [ 0, %23 ], [ %31, %24 ]
  %34 = load ptr, ptr %11, align 8
  %35 = load i32, ptr %34, align 4
  %36 = icmp eq i32 %35, 0
  %37 = select i1 %36, i32 %33, i32 255
  %38 = icmp eq i32 %37, 0
  %39 = shl i64 %9, 8
  %40 = zext nneg i32 %37 to i64
  %41 = or disjoint i64 %39, %40
  %42 = select i1 %38, i64 0, i64 %41
  %43 = add nuw nsw i64 %9, 1
  %44 = icmp slt i64 %43, %1
  %45 = icmp eq i64 %42, 0
  %46 = select i1 %44, i1 %45, i1 false
  br i1 %46, label %8, label %6
}
declare i64 @write(i32, ptr, i64)
declare i32 @raise(i32)
declare i64 @PyDict_Size(ptr)
declare ptr @PyErr_NoMemory()
declare ptr @PyObject_CallOneArg(ptr, ptr)
define internal fastcc i32 @read_arguments(ptr %0, ptr %1, i64 %2, ptr %3) nounwind {
  %5 = alloca i32, align 4
  %6 = alloca i32, align 4
  %7 = alloca i32, align 4
  %8 = alloca i32, align 4
  %9 = alloca ptr, align 8
  %10 = alloca i32, align 4
  %11 = alloca i64, align 8
  %12 = alloca i64, align 8
  %13 = alloca i64, align 8
  %14 = alloca ptr, align 8
  %15 = alloca ptr, align 8
  %16 = alloca ptr, align 8
  %17 = alloca %struct.memory, align 8
  %18 = alloca %struct.memory, align 8
  %19 = alloca %struct.memory, align 8
  %20 = getelementptr inbounds nuw i8, ptr %1, i64 8
  %21 = load i64, ptr %20, align 8
  %22 = getelementptr inbounds nuw i8, ptr %0, i64 240
  %23 = load i64, ptr %22, align 8
  %24 = icmp sgt i64 %21, %23
  br i1 %24, label %598, label %25
25:
  %26 = load i64, ptr %0, align 8
  %27 = icmp sgt i64 %26, 0
  br i1 %27, label %28, label %55
28:
  %29 = getelementptr inbounds nuw i8, ptr %0, i64 8
  %30 = getelementptr inbounds nuw i8, ptr %1, i64 32
  %31 = getelementptr inbounds nuw i8, ptr %1, i64 24
  %32 = getelementptr inbounds nuw i8, ptr %1, i64 16
  %33 = getelementptr inbounds nuw i8, ptr %0, i64 248
  %34 = getelementptr inbounds nuw i8, ptr %1, i64 40
  %35 = getelementptr inbounds nuw i8, ptr %0, i64 224
  %36 = getelementptr inbounds nuw i8, ptr %17, i64 8
  %37 = getelementptr inbounds nuw i8, ptr %17, i64 16
  %38 = getelementptr inbounds nuw i8, ptr %17, i64 24
  %39 = getelementptr inbounds nuw i8, ptr %17, i64 32
  %40 = getelementptr inbounds nuw i8, ptr %0, i64 80
  %41 = getelementptr inbounds nuw i8, ptr %3, i64 2192
  %42 = getelementptr inbounds nuw i8, ptr %3, i64 2184
  %43 = getelementptr inbounds nuw i8, ptr %3, i64 1088
  %44 = getelementptr inbounds nuw i8, ptr %3, i64 1672
  %45 = getelementptr inbounds nuw i8, ptr %0, i64 208
  %46 = getelementptr inbounds nuw i8, ptr %0, i64 216
  %47 = getelementptr inbounds nuw i8, ptr %18, i64 8
  %48 = getelementptr inbounds nuw i8, ptr %18, i64 16
  %49 = getelementptr inbounds nuw i8, ptr %18, i64 24
  %50 = getelementptr inbounds nuw i8, ptr %18, i64 32
  %51 = getelementptr inbounds nuw i8, ptr %19, i64 8
  %52 = getelementptr inbounds nuw i8, ptr %19, i64 16
  %53 = getelementptr inbounds nuw i8, ptr %19, i64 24
  %54 = getelementptr inbounds nuw i8, ptr %19, i64 32
  br label %64
55:
  %56 = phi i64 [ %2, %25 ], [ %119, %573 ]
  %57 = getelementptr inbounds nuw i8, ptr %0, i64 64
  %58 = load i64, ptr %57, align 8
  %59 = icmp sgt i64 %58, 0
  br i1 %59, label %60, label %577
60:
  %61 = getelementptr inbounds nuw i8, ptr %0, i64 72
  %62 = getelementptr inbounds nuw i8, ptr %0, i64 80
  %63 = getelementptr inbounds nuw i8, ptr %3, i64 1088
  br label %582
64:
  %65 = phi i64 [ 0, %28 ], [ %574, %573 ]
  %66 = phi i64 [ %2, %28 ], [ %119, %573 ]
  %67 = load ptr, ptr %29, align 8
  %68 = getelementptr inbounds nuw %struct.param, ptr %67, i64 %65
  %69 = load i64, ptr %20, align 8
  %70 = icmp slt i64 %65, %69
  br i1 %70, label %71, label %75
71:
  %72 = load ptr, ptr %1, align 8
  %73 = getelementptr inbounds nuw ptr, ptr %72, i64 %65
  %74 = load ptr, ptr %73, align 8
  br label %104
75:
  %76 = load i64, ptr %30, align 8
  %77 = icmp slt i64 %66, %76
  br i1 %77, label %78, label %113
78:
  %79 = getelementptr inbounds nuw i8, ptr %68, i64 8
  %80 = load ptr, ptr %79, align 8
  %81 = load ptr, ptr %31, align 8
  %82 = icmp eq ptr %81, null
  br i1 %82, label %83, label %88
83:
  %84 = icmp sgt i64 %76, 0
  br i1 %84, label %85, label %113
85:
  %86 = load ptr, ptr %32, align 8
  %87 = getelementptr inbounds nuw i8, ptr %86, i64 24
  br label %91
88:
  %89 = call ptr @PyDict_GetItemWithError(ptr %81, ptr %80)
  %90 = load i64, ptr %20, align 8
  br label %104
91:
  %92 = phi i64 [ 0, %85 ], [ %97, %96 ]
  %93 = getelementptr inbounds nuw ptr, ptr %87, i64 %92
  %94 = load ptr, ptr %93, align 8
  %95 = icmp eq ptr %94, %80
  br i1 %95, label %99, label %96
96:
  %97 = add nuw nsw i64 %92, 1
  %98 = icmp eq i64 %97, %76
  br i1 %98, label %113, label %91
99:
  %100 = load ptr, ptr %1, align 8
  %101 = getelementptr ptr, ptr %100, i64 %69
  %102 = getelementptr ptr, ptr %101, i64 %92
  %103 = load ptr, ptr %102, align 8
  br label %104
104:
  %105 = phi i64 [ %69, %71 ], [ %69, %99 ], [ %90, %88 ]
  %106 = phi ptr [ %74, %71 ], [ %103, %99 ], [ %89, %88 ]
  %107 = icmp sge i64 %65, %105
  %108 = icmp ne ptr %106, null
  %109 = and i1 %108, %107
  %110 = zext i1 %109 to i64
  %111 = add i64 %66, %110
  %112 = icmp eq ptr %106, null
  br i1 %112, label %113, label %118
113:
  %114 = phi i64 [ %111, %104 ], [ %66, %75 ], [ %66, %83 ], [ %66, %96 ]
  %115 = getelementptr inbounds nuw i8, ptr %68, i64 16
  %116 = load ptr, ptr %115, align 8
  %117 = icmp eq ptr %116, null
  br i1 %117, label %598, label %118
118:
  %119 = phi i64 [ %114, %113 ], [ %111, %104 ]
  %120 = phi ptr [ %116, %113 ], [ %106, %104 ]
  %121 = load i64, ptr %68, align 8
  switch i64 %121, label %515 [
    i64 0, label %122
    i64 5, label %479
  ]
122:
  %123 = load i32, ptr %34, align 8
  %124 = load ptr, ptr %33, align 8
  %125 = getelementptr inbounds nuw i8, ptr %120, i64 8
  %126 = load ptr, ptr %125, align 8
  %127 = load ptr, ptr %124, align 8
  %128 = icmp eq ptr %126, %127
  br i1 %128, label %129, label %163
129:
  %130 = getelementptr inbounds nuw i8, ptr %68, i64 64
  %131 = load i64, ptr %130, align 8
  %132 = icmp eq i64 %131, 0
  br i1 %132, label %598, label %133
133:
  %134 = getelementptr inbounds nuw i8, ptr %120, i64 56
  %135 = load ptr, ptr %134, align 8
  %136 = getelementptr inbounds nuw i8, ptr %68, i64 24
  %137 = load ptr, ptr %136, align 8
  %138 = icmp eq ptr %135, %137
  br i1 %138, label %139, label %598
139:
  %140 = getelementptr inbounds nuw i8, ptr %68, i64 48
  %141 = load i64, ptr %140, align 8
  %142 = icmp eq i64 %141, 0
  %143 = select i1 %142, i32 256, i32 1280
  %144 = getelementptr inbounds nuw i8, ptr %120, i64 64
  %145 = load i32, ptr %144, align 8
  %146 = or disjoint i32 %143, 8192
  %147 = and i32 %146, %145
  %148 = icmp eq i32 %147, %143
  br i1 %148, label %149, label %598
149:
  %150 = getelementptr inbounds nuw i8, ptr %120, i64 16
  %151 = load i64, ptr %150, align 8
  store i64 %151, ptr %19, align 8
  %152 = getelementptr inbounds nuw i8, ptr %120, i64 24
  %153 = load i32, ptr %152, align 8
  %154 = sext i32 %153 to i64
  store i64 %154, ptr %51, align 8
  %155 = getelementptr inbounds nuw i8, ptr %120, i64 32
  %156 = load ptr, ptr %155, align 8
  store ptr %156, ptr %52, align 8
  %157 = getelementptr inbounds nuw i8, ptr %120, i64 40
  %158 = load ptr, ptr %157, align 8
  store ptr %158, ptr %53, align 8
  %159 = getelementptr inbounds nuw i8, ptr %68, i64 40
  %160 = load i64, ptr %159, align 8
  store i64 %160, ptr %54, align 8
  %161 = and i32 %145, 1
  %162 = call fastcc i32 @read_memory(ptr %0, ptr %68, ptr %19, i32 %161, ptr %120, ptr %3)
  br label %476
163:
  %164 = getelementptr inbounds nuw i8, ptr %124, i64 72
  %165 = load ptr, ptr %164, align 8
  %166 = icmp eq ptr %126, %165
  br i1 %166, label %167, label %273
167:
  %168 = getelementptr inbounds nuw i8, ptr %124, i64 80
  %169 = load i64, ptr %168, align 8
  %170 = getelementptr inbounds i8, ptr %120, i64 %169
  %171 = load ptr, ptr %170, align 8
  %172 = getelementptr inbounds nuw i8, ptr %124, i64 88
  %173 = load i64, ptr %172, align 8
  %174 = getelementptr inbounds i8, ptr %120, i64 %173
  %175 = load ptr, ptr %174, align 8
  %176 = getelementptr inbounds nuw i8, ptr %124, i64 104
  %177 = load i64, ptr %176, align 8
  %178 = getelementptr inbounds i8, ptr %120, i64 %177
  %179 = load ptr, ptr %178, align 8
  %180 = getelementptr inbounds nuw i8, ptr %124, i64 96
  %181 = load i64, ptr %180, align 8
  %182 = getelementptr inbounds i8, ptr %120, i64 %181
  %183 = load ptr, ptr %182, align 8
  %184 = getelementptr inbounds nuw i8, ptr %68, i64 72
  %185 = load ptr, ptr %184, align 8
  %186 = icmp eq ptr %183, %185
  br i1 %186, label %187, label %598
187:
  %188 = load ptr, ptr %45, align 8
  %189 = icmp eq ptr %179, %188
  br i1 %189, label %193, label %190
190:
  %191 = load ptr, ptr %46, align 8
  %192 = icmp eq ptr %179, %191
  br i1 %192, label %193, label %598
193:
  %194 = icmp ne ptr %171, null
  %195 = icmp ne ptr %175, null
  %196 = select i1 %194, i1 %195, i1 false
  br i1 %196, label %197, label %598
197:
  %198 = getelementptr inbounds nuw i8, ptr %171, i64 8
  %199 = load ptr, ptr %198, align 8
  %200 = icmp eq ptr %199, %127
  br i1 %200, label %201, label %598
201:
  %202 = getelementptr inbounds nuw i8, ptr %171, i64 56
  %203 = load ptr, ptr %202, align 8
  %204 = getelementptr inbounds nuw i8, ptr %68, i64 24
  %205 = load ptr, ptr %204, align 8
  %206 = icmp eq ptr %203, %205
  br i1 %206, label %207, label %598
207:
  %208 = getelementptr inbounds nuw i8, ptr %68, i64 48
  %209 = load i64, ptr %208, align 8
  %210 = icmp eq i64 %209, 0
  %211 = select i1 %210, i32 256, i32 1280
  %212 = getelementptr inbounds nuw i8, ptr %171, i64 64
  %213 = load i32, ptr %212, align 8
  %214 = or disjoint i32 %211, 8192
  %215 = and i32 %214, %213
  %216 = icmp eq i32 %215, %211
  br i1 %216, label %217, label %598
217:
  %218 = getelementptr inbounds nuw i8, ptr %171, i64 16
  %219 = load i64, ptr %218, align 8
  store i64 %219, ptr %18, align 8
  %220 = getelementptr inbounds nuw i8, ptr %171, i64 24
  %221 = load i32, ptr %220, align 8
  %222 = sext i32 %221 to i64
  store i64 %222, ptr %47, align 8
  %223 = getelementptr inbounds nuw i8, ptr %171, i64 32
  %224 = load ptr, ptr %223, align 8
  store ptr %224, ptr %48, align 8
  %225 = getelementptr inbounds nuw i8, ptr %171, i64 40
  %226 = load ptr, ptr %225, align 8
  store ptr %226, ptr %49, align 8
  %227 = getelementptr inbounds nuw i8, ptr %68, i64 40
  %228 = load i64, ptr %227, align 8
  store i64 %228, ptr %50, align 8
  %229 = and i32 %213, 1
  %230 = call fastcc i32 @read_memory(ptr %0, ptr %68, ptr %18, i32 %229, ptr %171, ptr %3)
  %231 = icmp eq i32 %230, 0
  br i1 %231, label %598, label %232
232:
  %233 = load i64, ptr %208, align 8
  %234 = icmp eq i64 %233, 0
  br i1 %234, label %573, label %235
235:
  %236 = getelementptr inbounds nuw i8, ptr %175, i64 8
  %237 = load ptr, ptr %236, align 8
  %238 = load ptr, ptr %124, align 8
  %239 = icmp eq ptr %237, %238
  br i1 %239, label %573, label %240
240:
  %241 = getelementptr inbounds nuw i8, ptr %124, i64 112
  %242 = load ptr, ptr %241, align 8
  %243 = icmp eq ptr %242, null
  br i1 %243, label %598, label %244
244:
  %245 = icmp eq ptr %237, %242
  br i1 %245, label %250, label %246
246:
  %247 = getelementptr inbounds nuw i8, ptr %124, i64 120
  %248 = load ptr, ptr %247, align 8
  %249 = icmp eq ptr %237, %248
  br i1 %249, label %250, label %598
250:
  %251 = getelementptr inbounds nuw i8, ptr %124, i64 128
  %252 = load i64, ptr %251, align 8
  %253 = getelementptr inbounds i8, ptr %175, i64 %252
  %254 = load ptr, ptr %253, align 8
  %255 = icmp eq ptr %254, null
  br i1 %255, label %598, label %256
256:
  %257 = getelementptr inbounds nuw i8, ptr %124, i64 136
  %258 = load i64, ptr %257, align 8
  %259 = getelementptr inbounds i8, ptr %254, i64 %258
  %260 = load i64, ptr %259, align 8
  %261 = getelementptr inbounds nuw i8, ptr %124, i64 144
  %262 = load i64, ptr %261, align 8
  %263 = icmp eq i64 %260, %262
  br i1 %263, label %264, label %598
264:
  %265 = getelementptr inbounds nuw i8, ptr %124, i64 208
  %266 = load ptr, ptr %265, align 8
  %267 = call signext i8 %266(ptr %254)
  %268 = icmp eq i8 %267, 0
  br i1 %268, label %269, label %598
269:
  %270 = load i64, ptr %42, align 8
  %271 = add i64 %270, 1
  store i64 %271, ptr %42, align 8
  %272 = getelementptr inbounds ptr, ptr %41, i64 %270
  store ptr %254, ptr %272, align 8
  br label %573
273:
  %274 = getelementptr inbounds nuw i8, ptr %124, i64 112
  %275 = load ptr, ptr %274, align 8
  %276 = icmp eq ptr %275, null
  br i1 %276, label %414, label %277
277:
  %278 = icmp eq ptr %126, %275
  br i1 %278, label %283, label %279
279:
  %280 = getelementptr inbounds nuw i8, ptr %124, i64 120
  %281 = load ptr, ptr %280, align 8
  %282 = icmp eq ptr %126, %281
  br i1 %282, label %283, label %414
283:
  %284 = getelementptr inbounds nuw i8, ptr %124, i64 128
  %285 = load i64, ptr %284, align 8
  %286 = getelementptr inbounds i8, ptr %120, i64 %285
  %287 = load ptr, ptr %286, align 8
  store ptr %287, ptr %9, align 8
  %288 = load i64, ptr %35, align 8
  %289 = icmp ne i64 %288, 0
  %290 = icmp ne ptr %287, null
  %291 = select i1 %289, i1 %290, i1 false
  br i1 %291, label %292, label %412
292:
  %293 = getelementptr inbounds nuw i8, ptr %124, i64 136
  %294 = load i64, ptr %293, align 8
  %295 = getelementptr inbounds i8, ptr %287, i64 %294
  %296 = load i64, ptr %295, align 8
  %297 = getelementptr inbounds nuw i8, ptr %124, i64 144
  %298 = load i64, ptr %297, align 8
  %299 = icmp eq i64 %296, %298
  br i1 %299, label %300, label %412
300:
  %301 = getelementptr inbounds nuw i8, ptr %124, i64 160
  %302 = load ptr, ptr %301, align 8
  %303 = call i32 %302(ptr %9, ptr %10)
  %304 = icmp eq i32 %303, 0
  br i1 %304, label %305, label %410
305:
  %306 = load i32, ptr %10, align 4
  %307 = sext i32 %306 to i64
  %308 = getelementptr inbounds nuw i8, ptr %68, i64 80
  %309 = load i64, ptr %308, align 8
  %310 = icmp eq i64 %309, %307
  br i1 %310, label %311, label %410
311:
  %312 = getelementptr inbounds nuw i8, ptr %68, i64 48
  %313 = load i64, ptr %312, align 8
  %314 = icmp eq i64 %313, 0
  br i1 %314, label %321, label %315
315:
  %316 = getelementptr inbounds nuw i8, ptr %124, i64 208
  %317 = load ptr, ptr %316, align 8
  %318 = load ptr, ptr %9, align 8
  %319 = call signext i8 %317(ptr %318)
  %320 = icmp eq i8 %319, 0
  br i1 %320, label %321, label %410
321:
  %322 = getelementptr inbounds nuw i8, ptr %124, i64 168
  %323 = load ptr, ptr %322, align 8
  %324 = call i32 %323(ptr %9, ptr %11)
  %325 = icmp eq i32 %324, 0
  br i1 %325, label %326, label %410
326:
  %327 = getelementptr inbounds nuw i8, ptr %124, i64 176
  %328 = load ptr, ptr %327, align 8
  %329 = call i32 %328(ptr %9, ptr %14)
  %330 = icmp eq i32 %329, 0
  br i1 %330, label %331, label %410
331:
  %332 = getelementptr inbounds nuw i8, ptr %124, i64 184
  %333 = load ptr, ptr %332, align 8
  %334 = call i32 %333(ptr %9, ptr %15)
  %335 = icmp eq i32 %334, 0
  br i1 %335, label %336, label %410
336:
  %337 = getelementptr inbounds nuw i8, ptr %124, i64 192
  %338 = load ptr, ptr %337, align 8
  %339 = call i32 %338(ptr %9, ptr %12)
  %340 = icmp eq i32 %339, 0
  br i1 %340, label %341, label %410
341:
  %342 = getelementptr inbounds nuw i8, ptr %124, i64 200
  %343 = load ptr, ptr %342, align 8
  %344 = call i32 %343(ptr %9, ptr %13)
  %345 = icmp eq i32 %344, 0
  br i1 %345, label %346, label %410
346:
  %347 = getelementptr inbounds nuw i8, ptr %124, i64 152
  %348 = load ptr, ptr %347, align 8
  %349 = call i32 %348(ptr %9, ptr %16)
  %350 = icmp eq i32 %349, 0
  %351 = load ptr, ptr %16, align 8
  %352 = icmp ne ptr %351, null
  %353 = select i1 %350, i1 %352, i1 false
  br i1 %353, label %354, label %410
354:
  %355 = ptrtoint ptr %351 to i64
  store i64 %355, ptr %17, align 8
  %356 = load i64, ptr %11, align 8
  store i64 %356, ptr %36, align 8
  %357 = load ptr, ptr %14, align 8
  store ptr %357, ptr %37, align 8
  %358 = load ptr, ptr %15, align 8
  store ptr %358, ptr %38, align 8
  store i64 1, ptr %39, align 8
  %359 = getelementptr inbounds nuw i8, ptr %68, i64 40
  %360 = load i64, ptr %359, align 8
  %361 = urem i64 %355, %360
  %362 = icmp eq i64 %361, 0
  br i1 %362, label %363, label %408
363:
  %364 = add i64 %356, -1
  %365 = icmp slt i64 %364, 0
  br i1 %365, label %380, label %366
366:
  %367 = phi i64 [ %378, %376 ], [ %364, %363 ]
  %368 = phi i64 [ %377, %376 ], [ 1, %363 ]
  %369 = getelementptr inbounds nuw i64, ptr %357, i64 %367
  %370 = load i64, ptr %369, align 8
  %371 = icmp eq i64 %370, 1
  br i1 %371, label %376, label %372
372:
  %373 = getelementptr inbounds nuw i64, ptr %358, i64 %367
  %374 = load i64, ptr %373, align 8
  %375 = icmp eq i64 %374, %368
  br i1 %375, label %376, label %380
376:
  %377 = mul i64 %370, %368
  %378 = add nsw i64 %367, -1
  %379 = icmp slt i64 %367, 1
  br i1 %379, label %380, label %366
380:
  %381 = phi i64 [ %364, %363 ], [ -1, %376 ], [ %367, %372 ]
  %382 = lshr i64 %381, 63
  %383 = trunc nuw nsw i64 %382 to i32
  %384 = call fastcc i32 @read_memory(ptr %0, ptr %68, ptr %17, i32 %383, ptr %120, ptr %3)
  %385 = icmp eq i32 %384, 0
  br i1 %385, label %408, label %386
386:
  %387 = load i64, ptr %12, align 8
  %388 = load i64, ptr %40, align 8
  %389 = getelementptr inbounds nuw i8, ptr %68, i64 32
  %390 = load i64, ptr %389, align 8
  %391 = getelementptr i64, ptr %3, i64 %388
  %392 = getelementptr i8, ptr %391, i64 40
  %393 = getelementptr i64, ptr %392, i64 %390
  %394 = load i64, ptr %393, align 8
  %395 = add i64 %394, %387
  %396 = load i64, ptr %359, align 8
  %397 = mul i64 %395, %396
  %398 = load i64, ptr %13, align 8
  %399 = icmp sgt i64 %397, %398
  br i1 %399, label %408, label %400
400:
  %401 = load i64, ptr %312, align 8
  %402 = icmp eq i64 %401, 0
  br i1 %402, label %408, label %403
403:
  %404 = load ptr, ptr %9, align 8
  %405 = load i64, ptr %42, align 8
  %406 = add i64 %405, 1
  store i64 %406, ptr %42, align 8
  %407 = getelementptr inbounds ptr, ptr %41, i64 %405
  store ptr %404, ptr %407, align 8
  br label %408
408:
  %409 = phi i32 [ 0, %386 ], [ 0, %354 ], [ 0, %380 ], [ 1, %403 ], [ 1, %400 ]
  br label %410
410:
  %411 = phi i32 [ %409, %408 ], [ 0, %300 ], [ 0, %315 ], [ 0, %305 ], [ 0, %346 ], [ 0, %341 ], [ 0, %336 ], [ 0, %331 ], [ 0, %326 ], [ 0, %321 ]
  br label %412
412:
  %413 = phi i32 [ %411, %410 ], [ 0, %292 ], [ 0, %283 ]
  br label %476
414:
  %415 = icmp eq i32 %123, 0
  br i1 %415, label %598, label %416
416:
  %417 = getelementptr inbounds nuw i8, ptr %124, i64 24
  %418 = load ptr, ptr %417, align 8
  %419 = icmp eq ptr %126, %418
  br i1 %419, label %420, label %598
420:
  %421 = call ptr @PyTuple_GetItem(ptr %120, i64 0)
  %422 = call i64 @PyLong_AsLongLongAndOverflow(ptr %421, ptr %8)
  %423 = getelementptr inbounds nuw i8, ptr %68, i64 40
  %424 = load i64, ptr %423, align 8
  %425 = urem i64 %422, %424
  %426 = icmp eq i64 %425, 0
  br i1 %426, label %427, label %474
427:
  %428 = getelementptr inbounds nuw i8, ptr %120, i64 16
  %429 = load i64, ptr %428, align 8
  %430 = getelementptr inbounds nuw i8, ptr %68, i64 88
  %431 = load i64, ptr %430, align 8
  %432 = add i64 %431, 2
  %433 = icmp eq i64 %429, %432
  br i1 %433, label %434, label %474
434:
  %435 = call ptr @PyTuple_GetItem(ptr %120, i64 1)
  %436 = call i64 @PyLong_AsLongLongAndOverflow(ptr %435, ptr %8)
  %437 = getelementptr inbounds nuw i8, ptr %68, i64 32
  %438 = load i64, ptr %437, align 8
  %439 = getelementptr inbounds i64, ptr %3, i64 %438
  store i64 %422, ptr %439, align 8
  %440 = load i64, ptr %40, align 8
  %441 = load i64, ptr %437, align 8
  %442 = getelementptr i64, ptr %3, i64 %440
  %443 = getelementptr i8, ptr %442, i64 40
  %444 = getelementptr i64, ptr %443, i64 %441
  store i64 %436, ptr %444, align 8
  %445 = load i64, ptr %423, align 8
  %446 = mul i64 %445, %436
  %447 = add i64 %446, %422
  %448 = load i64, ptr %437, align 8
  %449 = getelementptr inbounds i64, ptr %43, i64 %448
  store i64 %447, ptr %449, align 8
  %450 = load i64, ptr %437, align 8
  %451 = getelementptr inbounds ptr, ptr %44, i64 %450
  store ptr %120, ptr %451, align 8
  %452 = load i64, ptr %430, align 8
  %453 = icmp sgt i64 %452, 0
  br i1 %453, label %454, label %474
454:
  %455 = getelementptr inbounds nuw i8, ptr %68, i64 96
  br label %456
456:
  %457 = phi i64 [ 0, %454 ], [ %471, %456 ]
  %458 = load ptr, ptr %455, align 8
  %459 = getelementptr inbounds nuw %struct.asked, ptr %458, i64 %457
  %460 = getelementptr inbounds nuw i8, ptr %459, i64 32
  %461 = load i64, ptr %460, align 8
  %462 = add nuw i64 %457, 2
  %463 = call ptr @PyTuple_GetItem(ptr %120, i64 %462)
  %464 = call i64 @PyLong_AsLongLongAndOverflow(ptr %463, ptr %8)
  %465 = getelementptr inbounds i64, ptr %3, i64 %461
  store i64 %464, ptr %465, align 8
  %466 = load i64, ptr %40, align 8
  %467 = getelementptr i64, ptr %3, i64 %466
  %468 = getelementptr i8, ptr %467, i64 40
  %469 = getelementptr i64, ptr %468, i64 %461
  store i64 0, ptr %469, align 8
  %470 = getelementptr inbounds i64, ptr %43, i64 %461
  store i64 0, ptr %470, align 8
  %471 = add nuw nsw i64 %457, 1
  %472 = load i64, ptr %430, align 8
  %473 = icmp slt i64 %471, %472
  br i1 %473, label %456, label %474
474:
  %475 = phi i32 [ 0, %420 ], [ 0, %427 ], [ 1, %434 ], [ 1, %456 ]
  br label %476
476:
  %477 = phi i32 [ %475, %474 ], [ %162, %149 ], [ %413, %412 ]
  %478 = icmp eq i32 %477, 0
  br i1 %478, label %598, label %573
479:
  %480 = getelementptr inbounds nuw i8, ptr %68, i64 24
  %481 = load ptr, ptr %480, align 8
  %482 = icmp eq ptr %120, %481
  br i1 %482, label %573, label %483
483:
  %484 = load ptr, ptr %33, align 8
  %485 = getelementptr inbounds nuw i8, ptr %120, i64 8
  %486 = load ptr, ptr %485, align 8
  %487 = getelementptr inbounds nuw i8, ptr %481, i64 8
  %488 = load ptr, ptr %487, align 8
  %489 = icmp eq ptr %486, %488
  br i1 %489, label %490, label %508
490:
  %491 = getelementptr inbounds nuw i8, ptr %484, i64 16
  %492 = load ptr, ptr %491, align 8
  %493 = icmp eq ptr %486, %492
  br i1 %493, label %509, label %494
494:
  %495 = getelementptr inbounds nuw i8, ptr %484, i64 8
  %496 = load ptr, ptr %495, align 8
  %497 = icmp eq ptr %486, %496
  br i1 %497, label %498, label %508
498:
  %499 = call i64 @PyLong_AsLongLongAndOverflow(ptr %120, ptr %6)
  %500 = call i64 @PyLong_AsLongLongAndOverflow(ptr %481, ptr %7)
  %501 = load i32, ptr %6, align 4
  %502 = icmp eq i32 %501, 0
  %503 = load i32, ptr %7, align 4
  %504 = icmp eq i32 %503, 0
  %505 = select i1 %502, i1 %504, i1 false
  %506 = icmp eq i64 %499, %500
  %507 = select i1 %505, i1 %506, i1 false
  br i1 %507, label %573, label %598
508:
  br label %598
509:
  %510 = call double @PyFloat_AsDouble(ptr %120)
  %511 = bitcast double %510 to i64
  %512 = call double @PyFloat_AsDouble(ptr %481)
  %513 = bitcast double %512 to i64
  %514 = icmp eq i64 %511, %513
  br i1 %514, label %573, label %598
515:
  %516 = load ptr, ptr %33, align 8
  switch i64 %121, label %552 [
    i64 1, label %517
    i64 2, label %517
    i64 7, label %517
    i64 3, label %536
    i64 6, label %536
  ]
517:
  %518 = getelementptr inbounds nuw i8, ptr %120, i64 8
  %519 = load ptr, ptr %518, align 8
  %520 = getelementptr inbounds nuw i8, ptr %516, i64 8
  %521 = load ptr, ptr %520, align 8
  %522 = icmp eq ptr %519, %521
  br i1 %522, label %523, label %562
523:
  %524 = call i64 @PyLong_AsLongLongAndOverflow(ptr %120, ptr %5)
  %525 = load i32, ptr %5, align 4
  %526 = icmp eq i32 %525, 0
  br i1 %526, label %527, label %562
527:
  %528 = load i64, ptr %68, align 8
  %529 = icmp eq i64 %528, 7
  br i1 %529, label %535, label %530
530:
  %531 = add i64 %524, 2147483648
  %532 = icmp ult i64 %531, 4294967296
  %533 = icmp ne i64 %528, 1
  %534 = xor i1 %532, %533
  br i1 %534, label %535, label %562
535:
  br label %563
536:
  %537 = getelementptr inbounds nuw i8, ptr %120, i64 8
  %538 = load ptr, ptr %537, align 8
  %539 = getelementptr inbounds nuw i8, ptr %516, i64 16
  %540 = load ptr, ptr %539, align 8
  %541 = icmp eq ptr %538, %540
  br i1 %541, label %542, label %598
542:
  %543 = call double @PyFloat_AsDouble(ptr %120)
  %544 = load i64, ptr %68, align 8
  %545 = icmp eq i64 %544, 6
  br i1 %545, label %546, label %548
546:
  %547 = bitcast double %543 to i64
  br label %563
548:
  %549 = fptrunc double %543 to float
  %550 = bitcast float %549 to i32
  %551 = zext i32 %550 to i64
  br label %563
552:
  %553 = getelementptr inbounds nuw i8, ptr %516, i64 40
  %554 = load ptr, ptr %553, align 8
  %555 = icmp eq ptr %120, %554
  br i1 %555, label %560, label %556
556:
  %557 = getelementptr inbounds nuw i8, ptr %516, i64 48
  %558 = load ptr, ptr %557, align 8
  %559 = icmp eq ptr %120, %558
  br i1 %559, label %560, label %598
560:
  %561 = zext i1 %555 to i64
  br label %563
562:
  br label %598
563:
  %564 = phi i64 [ %561, %560 ], [ %524, %535 ], [ %547, %546 ], [ %551, %548 ]
  %565 = getelementptr inbounds nuw i8, ptr %68, i64 32
  %566 = load i64, ptr %565, align 8
  %567 = getelementptr inbounds i64, ptr %3, i64 %566
  store i64 %564, ptr %567, align 8
  %568 = load i64, ptr %40, align 8
  %569 = getelementptr i64, ptr %3, i64 %568
  %570 = getelementptr i8, ptr %569, i64 40
  %571 = getelementptr i64, ptr %570, i64 %566
  store i64 0, ptr %571, align 8
  %572 = getelementptr inbounds i64, ptr %43, i64 %566
  store i64 0, ptr %572, align 8
  br label %573
573:
  %574 = add nuw nsw i64 %65, 1
  %575 = load i64, ptr %0, align 8
  %576 = icmp slt i64 %574, %575
  br i1 %576, label %64, label %55
577:
  %578 = getelementptr inbounds nuw i8, ptr %1, i64 32
  %579 = load i64, ptr %578, align 8
  %580 = icmp eq i64 %56, %579
  %581 = zext i1 %580 to i32
  br label %598
582:
  %583 = phi i64 [ 0, %60 ], [ %595, %582 ]
  %584 = load ptr, ptr %61, align 8
  %585 = getelementptr inbounds nuw %struct.fixed, ptr %584, i64 %583
  %586 = load i64, ptr %585, align 8
  %587 = getelementptr inbounds nuw i8, ptr %585, i64 8
  %588 = load i64, ptr %587, align 8
  %589 = getelementptr inbounds i64, ptr %3, i64 %586
  store i64 %588, ptr %589, align 8
  %590 = load i64, ptr %62, align 8
  %591 = getelementptr i64, ptr %3, i64 %590
  %592 = getelementptr i8, ptr %591, i64 40
  %593 = getelementptr i64, ptr %592, i64 %586
  store i64 0, ptr %593, align 8
  %594 = getelementptr inbounds i64, ptr %63, i64 %586
  store i64 0, ptr %594, align 8
  %595 = add nuw nsw i64 %583, 1
  %596 = load i64, ptr %57, align 8
  %597 = icmp slt i64 %595, %596
  br i1 %597, label %582, label %577
598:
  %599 = phi i32 [ 0, %4 ], [ %581, %577 ], [ 0, %562 ], [ 0, %508 ], [ 0, %498 ], [ 0, %509 ], [ 0, %476 ], [ 0, %113 ], [ 0, %133 ], [ 0, %129 ], [ 0, %416 ], [ 0, %414 ], [ 0, %139 ], [ 0, %240 ], [ 0, %167 ], [ 0, %193 ], [ 0, %190 ], [ 0, %217 ], [ 0, %197 ], [ 0, %246 ], [ 0, %264 ], [ 0, %256 ], [ 0, %250 ], [ 0, %207 ], [ 0, %201 ], [ 0, %536 ], [ 0, %556 ]
  ret i32 %599
}
define internal fastcc i32 @read_memory(ptr %0, ptr %1, ptr %2, i32 %3, ptr %4, ptr %5) nounwind {
  %7 = alloca [32 x i64], align 16
  %8 = alloca [32 x i64], align 16
  %9 = getelementptr inbounds nuw i8, ptr %2, i64 8
  %10 = load i64, ptr %9, align 8
  %11 = icmp sgt i64 %10, 32
  br i1 %11, label %276, label %12
12:
  %13 = getelementptr inbounds nuw i8, ptr %1, i64 104
  %14 = load i64, ptr %13, align 8
  %15 = icmp eq i64 %14, %10
  br i1 %15, label %16, label %33
16:
  %17 = icmp sgt i64 %10, 0
  br i1 %17, label %18, label %35
18:
  %19 = getelementptr inbounds nuw i8, ptr %1, i64 112
  %20 = load ptr, ptr %19, align 8
  %21 = getelementptr inbounds nuw i8, ptr %2, i64 16
  %22 = load ptr, ptr %21, align 8
  br label %26
23:
  %24 = add nuw nsw i64 %27, 1
  %25 = icmp eq i64 %24, %10
  br i1 %25, label %35, label %26
26:
  %27 = phi i64 [ 0, %18 ], [ %24, %23 ]
  %28 = getelementptr inbounds nuw i64, ptr %20, i64 %27
  %29 = load i64, ptr %28, align 8
  %30 = getelementptr inbounds nuw i64, ptr %22, i64 %27
  %31 = load i64, ptr %30, align 8
  %32 = icmp eq i64 %29, %31
  br i1 %32, label %23, label %276
33:
  %34 = icmp sgt i64 %14, -1
  br i1 %34, label %276, label %35
35:
  %36 = icmp eq i32 %3, 0
  %37 = icmp sgt i64 %10, 0
  br i1 %36, label %38, label %44
38:
  br i1 %37, label %39, label %69
39:
  %40 = getelementptr inbounds nuw i8, ptr %2, i64 24
  %41 = load ptr, ptr %40, align 8
  %42 = getelementptr inbounds nuw i8, ptr %2, i64 32
  %43 = load i64, ptr %42, align 8
  br label %59
44:
  br i1 %37, label %45, label %148
45:
  %46 = getelementptr inbounds nuw i8, ptr %2, i64 16
  %47 = load ptr, ptr %46, align 8
  br label %48
48:
  %49 = phi i64 [ 0, %45 ], [ %54, %48 ]
  %50 = phi i64 [ 1, %45 ], [ %53, %48 ]
  %51 = getelementptr inbounds nuw i64, ptr %47, i64 %49
  %52 = load i64, ptr %51, align 8
  %53 = mul i64 %52, %50
  %54 = add nuw nsw i64 %49, 1
  %55 = icmp eq i64 %54, %10
  br i1 %55, label %148, label %48
56:
  %57 = add nuw nsw i64 %60, 1
  %58 = icmp eq i64 %57, %10
  br i1 %58, label %65, label %59
59:
  %60 = phi i64 [ 0, %39 ], [ %57, %56 ]
  %61 = getelementptr inbounds nuw i64, ptr %41, i64 %60
  %62 = load i64, ptr %61, align 8
  %63 = srem i64 %62, %43
  %64 = icmp eq i64 %63, 0
  br i1 %64, label %56, label %276
65:
  %66 = getelementptr inbounds nuw i8, ptr %1, i64 56
  %67 = load i64, ptr %66, align 8
  %68 = icmp eq i64 %67, 0
  br i1 %68, label %276, label %74
69:
  %70 = getelementptr inbounds nuw i8, ptr %1, i64 56
  %71 = load i64, ptr %70, align 8
  %72 = icmp eq i64 %71, 0
  br i1 %72, label %276, label %73
73:
  br label %144
74:
  %75 = getelementptr inbounds nuw i8, ptr %1, i64 48
  %76 = load i64, ptr %75, align 8
  %77 = icmp eq i64 %76, 0
  %78 = getelementptr inbounds nuw i8, ptr %2, i64 16
  %79 = load ptr, ptr %78, align 8
  %80 = getelementptr inbounds nuw i8, ptr %2, i64 24
  %81 = getelementptr inbounds nuw i8, ptr %2, i64 32
  br label %84
82:
  %83 = icmp sgt i64 %115, 0
  br i1 %83, label %122, label %144
84:
  %85 = phi i64 [ 0, %74 ], [ %115, %114 ]
  %86 = phi i64 [ 0, %74 ], [ %116, %114 ]
  %87 = getelementptr inbounds nuw i64, ptr %79, i64 %86
  %88 = load i64, ptr %87, align 8
  %89 = icmp eq i64 %88, 1
  br i1 %89, label %114, label %90
90:
  %91 = load ptr, ptr %80, align 8
  %92 = getelementptr inbounds nuw i64, ptr %91, i64 %86
  %93 = load i64, ptr %92, align 8
  %94 = load i64, ptr %81, align 8
  %95 = sdiv i64 %93, %94
  %96 = add i64 %85, 1
  %97 = icmp sgt i64 %85, 0
  br i1 %97, label %98, label %110
98:
  %99 = phi i64 [ %100, %104 ], [ %85, %90 ]
  %100 = add nsw i64 %99, -1
  %101 = getelementptr inbounds nuw i64, ptr %7, i64 %100
  %102 = load i64, ptr %101, align 8
  %103 = icmp sgt i64 %102, %95
  br i1 %103, label %104, label %110
104:
  %105 = getelementptr inbounds nuw i64, ptr %7, i64 %99
  store i64 %102, ptr %105, align 8
  %106 = getelementptr inbounds nuw i64, ptr %8, i64 %100
  %107 = load i64, ptr %106, align 8
  %108 = getelementptr inbounds nuw i64, ptr %8, i64 %99
  store i64 %107, ptr %108, align 8
  %109 = icmp ugt i64 %99, 1
  br i1 %109, label %98, label %110
110:
  %111 = phi i64 [ %85, %90 ], [ %99, %98 ], [ 0, %104 ]
  %112 = getelementptr inbounds i64, ptr %7, i64 %111
  store i64 %95, ptr %112, align 8
  %113 = getelementptr inbounds i64, ptr %8, i64 %111
  store i64 %88, ptr %113, align 8
  br label %114
114:
  %115 = phi i64 [ %85, %84 ], [ %96, %110 ]
  %116 = add nuw nsw i64 %86, 1
  %117 = icmp eq i64 %116, %10
  br i1 %117, label %82, label %84
118:
  %119 = extractvalue { i64, i1 } %141, 0
  %120 = add nuw nsw i64 %123, 1
  %121 = icmp eq i64 %120, %115
  br i1 %121, label %145, label %122
122:
  %123 = phi i64 [ %120, %118 ], [ 0, %82 ]
  %124 = phi i64 [ %119, %118 ], [ 0, %82 ]
  %125 = getelementptr inbounds nuw i64, ptr %8, i64 %123
  %126 = load i64, ptr %125, align 8
  %127 = icmp eq i64 %126, 0
  br i1 %127, label %143, label %128
128:
  %129 = getelementptr inbounds nuw i64, ptr %7, i64 %123
  %130 = load i64, ptr %129, align 8
  %131 = icmp sgt i64 %130, -1
  %132 = icmp sgt i64 %130, %124
  %133 = select i1 %77, i1 true, i1 %132
  %134 = select i1 %131, i1 %133, i1 false
  br i1 %134, label %135, label %143
135:
  %136 = add i64 %126, -1
  %137 = tail call { i64, i1 } @llvm.smul.with.overflow.i64(i64 %136, i64 %130)
  %138 = extractvalue { i64, i1 } %137, 1
  br i1 %138, label %143, label %139
139:
  %140 = extractvalue { i64, i1 } %137, 0
  %141 = tail call { i64, i1 } @llvm.sadd.with.overflow.i64(i64 %124, i64 %140)
  %142 = extractvalue { i64, i1 } %141, 1
  br i1 %142, label %143, label %118
143:
  br label %276
144:
  br label %148
145:
  %146 = add i64 %119, 1
  %147 = icmp slt i64 %146, 0
  br i1 %147, label %276, label %148
148:
  %149 = phi i64 [ %146, %145 ], [ 1, %44 ], [ 1, %144 ], [ %53, %48 ]
  %150 = getelementptr inbounds nuw i8, ptr %1, i64 88
  %151 = load i64, ptr %150, align 8
  %152 = icmp sgt i64 %151, 0
  br i1 %152, label %153, label %255
153:
  %154 = getelementptr inbounds nuw i8, ptr %1, i64 96
  %155 = getelementptr inbounds nuw i8, ptr %2, i64 16
  %156 = getelementptr inbounds nuw i8, ptr %2, i64 24
  %157 = getelementptr inbounds nuw i8, ptr %2, i64 32
  %158 = getelementptr inbounds nuw i8, ptr %0, i64 80
  %159 = getelementptr inbounds nuw i8, ptr %5, i64 1088
  br label %160
160:
  %161 = phi i64 [ 0, %153 ], [ %252, %242 ]
  %162 = load ptr, ptr %154, align 8
  %163 = getelementptr inbounds nuw %struct.asked, ptr %162, i64 %161
  %164 = load i64, ptr %163, align 8
  %165 = icmp eq i64 %164, 2
  br i1 %165, label %166, label %179
166:
  %167 = load i64, ptr %9, align 8
  %168 = icmp sgt i64 %167, 0
  br i1 %168, label %169, label %242
169:
  %170 = load ptr, ptr %155, align 8
  br label %171
171:
  %172 = phi i64 [ 0, %169 ], [ %177, %171 ]
  %173 = phi i64 [ 1, %169 ], [ %176, %171 ]
  %174 = getelementptr inbounds nuw i64, ptr %170, i64 %172
  %175 = load i64, ptr %174, align 8
  %176 = mul i64 %175, %173
  %177 = add nuw nsw i64 %172, 1
  %178 = icmp eq i64 %177, %167
  br i1 %178, label %239, label %171
179:
  %180 = getelementptr inbounds nuw i8, ptr %163, i64 8
  %181 = load i64, ptr %180, align 8
  %182 = icmp slt i64 %181, 0
  %183 = load i64, ptr %9, align 8
  br i1 %182, label %184, label %187
184:
  %185 = add i64 %183, %181
  %186 = icmp slt i64 %185, 0
  br i1 %186, label %276, label %187
187:
  %188 = phi i64 [ %185, %184 ], [ %181, %179 ]
  %189 = icmp slt i64 %188, %183
  br i1 %189, label %190, label %276
190:
  %191 = getelementptr inbounds nuw i8, ptr %163, i64 16
  %192 = load i64, ptr %191, align 8
  %193 = icmp eq i64 %192, 0
  %194 = icmp eq i64 %192, %183
  %195 = or i1 %193, %194
  br i1 %195, label %196, label %276
196:
  %197 = icmp eq i64 %164, 1
  br i1 %197, label %198, label %202
198:
  %199 = load ptr, ptr %155, align 8
  %200 = getelementptr inbounds nuw i64, ptr %199, i64 %188
  %201 = load i64, ptr %200, align 8
  br label %239
202:
  %203 = getelementptr inbounds nuw i8, ptr %163, i64 24
  %204 = load i64, ptr %203, align 8
  %205 = icmp eq i64 %204, 0
  %206 = load ptr, ptr %155, align 8
  br i1 %205, label %228, label %209
207:
  %208 = icmp slt i64 %225, 2147483648
  br i1 %208, label %228, label %276
209:
  %210 = phi i64 [ %226, %223 ], [ 0, %202 ]
  %211 = phi i64 [ %225, %223 ], [ 0, %202 ]
  %212 = getelementptr inbounds nuw i64, ptr %206, i64 %210
  %213 = load i64, ptr %212, align 8
  %214 = icmp sgt i64 %213, 1
  br i1 %214, label %215, label %223
215:
  %216 = add nsw i64 %213, -1
  %217 = load ptr, ptr %156, align 8
  %218 = getelementptr inbounds nuw i64, ptr %217, i64 %210
  %219 = load i64, ptr %218, align 8
  %220 = load i64, ptr %157, align 8
  %221 = sdiv i64 %219, %220
  %222 = mul i64 %221, %216
  br label %223
223:
  %224 = phi i64 [ %222, %215 ], [ 0, %209 ]
  %225 = add i64 %224, %211
  %226 = add nuw nsw i64 %210, 1
  %227 = icmp eq i64 %226, %183
  br i1 %227, label %207, label %209
228:
  %229 = load ptr, ptr %156, align 8
  %230 = getelementptr inbounds nuw i64, ptr %229, i64 %188
  %231 = load i64, ptr %230, align 8
  %232 = load i64, ptr %157, align 8
  %233 = sdiv i64 %231, %232
  %234 = getelementptr inbounds nuw i64, ptr %206, i64 %188
  %235 = load i64, ptr %234, align 8
  %236 = icmp sgt i64 %235, 1
  %237 = tail call i64 @llvm.smax.i64(i64 %233, i64 0)
  %238 = select i1 %236, i64 %233, i64 %237
  br label %239
239:
  %240 = phi i64 [ %238, %228 ], [ %201, %198 ], [ %176, %171 ]
  %241 = icmp ult i64 %240, 2147483648
  br i1 %241, label %242, label %276
242:
  %243 = phi i64 [ %240, %239 ], [ 1, %166 ]
  %244 = getelementptr inbounds nuw i8, ptr %163, i64 32
  %245 = load i64, ptr %244, align 8
  %246 = getelementptr inbounds i64, ptr %5, i64 %245
  store i64 %243, ptr %246, align 8
  %247 = load i64, ptr %158, align 8
  %248 = getelementptr i64, ptr %5, i64 %247
  %249 = getelementptr i8, ptr %248, i64 40
  %250 = getelementptr i64, ptr %249, i64 %245
  store i64 0, ptr %250, align 8
  %251 = getelementptr inbounds i64, ptr %159, i64 %245
  store i64 0, ptr %251, align 8
  %252 = add nuw nsw i64 %161, 1
  %253 = load i64, ptr %150, align 8
  %254 = icmp slt i64 %252, %253
  br i1 %254, label %160, label %255
255:
  %256 = load i64, ptr %2, align 8
  %257 = getelementptr inbounds nuw i8, ptr %1, i64 32
  %258 = load i64, ptr %257, align 8
  %259 = getelementptr inbounds i64, ptr %5, i64 %258
  store i64 %256, ptr %259, align 8
  %260 = getelementptr inbounds nuw i8, ptr %0, i64 80
  %261 = load i64, ptr %260, align 8
  %262 = load i64, ptr %257, align 8
  %263 = getelementptr i64, ptr %5, i64 %261
  %264 = getelementptr i8, ptr %263, i64 40
  %265 = getelementptr i64, ptr %264, i64 %262
  store i64 %149, ptr %265, align 8
  %266 = getelementptr inbounds nuw i8, ptr %1, i64 40
  %267 = load i64, ptr %266, align 8
  %268 = mul i64 %267, %149
  %269 = add i64 %268, %256
  %270 = getelementptr inbounds nuw i8, ptr %5, i64 1088
  %271 = load i64, ptr %257, align 8
  %272 = getelementptr inbounds i64, ptr %270, i64 %271
  store i64 %269, ptr %272, align 8
  %273 = getelementptr inbounds nuw i8, ptr %5, i64 1672
  %274 = load i64, ptr %257, align 8
  %275 = getelementptr inbounds ptr, ptr %273, i64 %274
  store ptr %4, ptr %275, align 8
  br label %276
276:
  %277 = phi i32 [ 0, %65 ], [ 1, %255 ], [ 0, %143 ], [ 0, %6 ], [ 0, %33 ], [ 0, %145 ], [ 0, %69 ], [ 0, %187 ], [ 0, %59 ], [ 0, %239 ], [ 0, %184 ], [ 0, %207 ], [ 0, %190 ], [ 0, %26 ]
  ret i32 %277
}
declare { i64, i1 } @llvm.smul.with.overflow.i64(i64, i64)
declare { i64, i1 } @llvm.sadd.with.overflow.i64(i64, i64)
declare i64 @PyLong_AsLongLongAndOverflow(ptr, ptr)
declare ptr @PyTuple_GetItem(ptr, i64)
declare double @PyFloat_AsDouble(ptr)
declare ptr @PyDict_GetItemWithError(ptr, ptr)
declare ptr @PyCell_Get(ptr)
declare ptr @PyObject_CallNoArgs(ptr)
declare ptr @PyFunction_GetCode(ptr)
declare ptr @PyFunction_GetDefaults(ptr)
declare ptr @PyFunction_GetKwDefaults(ptr)
declare ptr @PyMem_Malloc(i64)
declare ptr @PyObject_Vectorcall(ptr, ptr, i64, ptr)
declare void @PyMem_Free(ptr)
declare void @PyErr_Fetch(ptr, ptr, ptr)
declare void @PyErr_NormalizeException(ptr, ptr, ptr)
declare i32 @PyException_SetTraceback(ptr, ptr)
declare void @PyErr_Restore(ptr, ptr, ptr)
declare ptr @PyException_GetTraceback(ptr)
define internal fastcc void @spread(ptr %0, i64 %1, ptr %2) nounwind {
  %4 = alloca %struct.timespec, align 8
  %5 = alloca %struct.timespec, align 8
  %6 = alloca %struct.timespec, align 8
  %7 = alloca %struct.timespec, align 8
  %8 = alloca %struct.__sigset_t, align 8
  %9 = alloca %struct.__sigset_t, align 8
  %10 = alloca i64, align 8
  %11 = alloca %struct.timespec, align 8
  %12 = alloca %struct.timespec, align 8
  %13 = alloca %struct.job, align 64
  %14 = getelementptr inbounds nuw i8, ptr %0, i64 48
  %15 = getelementptr inbounds nuw i8, ptr %0, i64 16
  %16 = load i64, ptr %15, align 8
  %17 = icmp slt i64 %1, %16
  br i1 %17, label %18, label %259
18:
  %19 = getelementptr inbounds nuw i8, ptr %13, i64 64
  %20 = getelementptr inbounds nuw i8, ptr %13, i64 96
  %21 = getelementptr inbounds nuw i8, ptr %13, i64 104
  %22 = getelementptr inbounds nuw i8, ptr %13, i64 112
  %23 = getelementptr inbounds nuw i8, ptr %13, i64 128
  %24 = getelementptr inbounds nuw i8, ptr %13, i64 136
  %25 = getelementptr inbounds nuw i8, ptr %2, i64 24
  %26 = getelementptr inbounds nuw i8, ptr %13, i64 140
  %27 = getelementptr inbounds nuw i8, ptr %13, i64 144
  %28 = getelementptr inbounds nuw i8, ptr %13, i64 192
  %29 = getelementptr inbounds nuw i8, ptr %13, i64 200
  %30 = getelementptr inbounds nuw i8, ptr %0, i64 56
  %31 = getelementptr inbounds nuw i8, ptr %12, i64 8
  %32 = getelementptr inbounds nuw i8, ptr %0, i64 40
  %33 = getelementptr inbounds nuw i8, ptr %11, i64 8
  %34 = getelementptr inbounds nuw i8, ptr %7, i64 8
  %35 = getelementptr inbounds nuw i8, ptr %0, i64 32
  %36 = getelementptr inbounds nuw i8, ptr %6, i64 8
  %37 = getelementptr inbounds nuw i8, ptr %5, i64 8
  %38 = getelementptr inbounds nuw i8, ptr %4, i64 8
  br label %39
39:
  %40 = phi i64 [ %16, %18 ], [ %257, %255 ]
  %41 = phi i64 [ %1, %18 ], [ %256, %255 ]
  %42 = load ptr, ptr %14, align 8
  %43 = load atomic i32, ptr %42 monotonic, align 4
  %44 = icmp eq i32 %43, 0
  br i1 %44, label %45, label %259
45:
  %46 = sub i64 %40, %41
  %47 = call i64 @llvm.umin.i64(i64 %46, i64 2147483648)
  call void @llvm.memcpy.p0.p0.i64(ptr align 64 %13, ptr align 8 %0, i64 64, i1 false)
  call void @llvm.memcpy.p0.p0.i64(ptr align 64 %19, ptr align 8 %2, i64 32, i1 false)
  store i64 %41, ptr %20, align 32
  %48 = tail call i64 @pthread_self()
  store i64 %48, ptr %21, align 8
  call void @llvm.memset.p0.i64(ptr align 16 %22, i8 0, i64 24, i1 false)
  %49 = load i64, ptr %25, align 8
  %50 = trunc i64 %49 to i32
  store i32 %50, ptr %24, align 8
  %51 = shl nuw i64 %47, 32
  call void @llvm.memset.p0.i64(ptr align 4 %26, i8 0, i64 52, i1 false)
  store i64 %51, ptr %28, align 64
  call void @llvm.memset.p0.i64(ptr align 8 %29, i8 0, i64 56, i1 false)
  %52 = icmp eq i64 %49, 0
  br i1 %52, label %68, label %53
53:
  %54 = load i64, ptr %30, align 8
  %55 = load atomic i64, ptr @team_run acquire, align 8
  %56 = inttoptr i64 %55 to ptr
  %57 = icmp eq i64 %55, 0
  br i1 %57, label %68, label %58
58:
  %59 = call i32 @getpid()
  %60 = load i32, ptr @owner, align 4
  %61 = icmp eq i32 %59, %60
  br i1 %61, label %62, label %68
62:
  %63 = load ptr, ptr @team_size, align 8
  %64 = call i32 %63()
  %65 = sext i32 %64 to i64
  %66 = icmp eq i64 %54, %65
  %67 = select i1 %66, ptr %56, ptr null
  br label %68
68:
  %69 = phi ptr [ null, %45 ], [ null, %53 ], [ %67, %62 ], [ null, %58 ]
  %70 = call i32 @clock_gettime(i32 1, ptr %12)
  %71 = load i64, ptr %12, align 8
  %72 = mul i64 %71, 1000000000
  %73 = load i64, ptr %31, align 8
  %74 = add i64 %72, %73
  %75 = icmp eq ptr %69, null
  br i1 %75, label %112, label %76
76:
  %77 = load i64, ptr %30, align 8
  %78 = trunc i64 %77 to i32
  call void %69(ptr @team_member, ptr %13, i32 %78, i32 0)
  %79 = load ptr, ptr %32, align 8
  %80 = call i32 @clock_gettime(i32 1, ptr %11)
  %81 = load i64, ptr %11, align 8
  %82 = load i64, ptr %33, align 8
  %83 = load i64, ptr %30, align 8
  %84 = load ptr, ptr %14, align 8
  %85 = load atomic i32, ptr %84 monotonic, align 4
  %86 = icmp eq i32 %85, 0
  %87 = icmp ne ptr %79, null
  %88 = icmp ne i64 %40, %41
  %89 = and i1 %88, %86
  %90 = and i1 %87, %89
  br i1 %90, label %91, label %255
91:
  %92 = mul i64 %81, 1000000000
  %93 = sub i64 %82, %74
  %94 = add i64 %93, %92
  %95 = mul i64 %83, 1000
  %96 = mul i64 %95, %94
  %97 = udiv i64 %96, %47
  %98 = call i64 @llvm.umax.i64(i64 %97, i64 1)
  %99 = load atomic i64, ptr %79 monotonic, align 8
  %100 = icmp ult i64 %98, %99
  br i1 %100, label %101, label %105
101:
  %102 = sub nuw i64 %99, %98
  %103 = lshr i64 %102, 2
  %104 = sub i64 %99, %103
  br label %110
105:
  %106 = icmp eq i64 %99, 0
  br i1 %106, label %110, label %107
107:
  %108 = shl i64 %99, 2
  %109 = call i64 @llvm.umin.i64(i64 %98, i64 %108)
  br label %110
110:
  %111 = phi i64 [ %104, %101 ], [ %109, %107 ], [ %98, %105 ]
  store atomic i64 %111, ptr %79 monotonic, align 8
  br label %255
112:
  %113 = load i64, ptr %25, align 8
  %114 = icmp eq i64 %113, 0
  br i1 %114, label %177, label %115
115:
  %116 = call i32 @getpid()
  %117 = load i32, ptr @owner, align 4
  %118 = icmp eq i32 %116, %117
  br i1 %118, label %130, label %119
119:
  %120 = call i32 @pthread_mutex_init(ptr @pool_lock, ptr null)
  %121 = call i32 @pthread_cond_init(ptr @work, ptr null)
  %122 = call i32 @pthread_cond_init(ptr @done, ptr null)
  store ptr null, ptr @jobs, align 8
  store i32 0, ptr @parked, align 4
  store i64 0, ptr @workers, align 8
  store ptr null, ptr @team_run, align 8
  %123 = call i32 @getpid()
  store i32 %123, ptr @owner, align 4
  %124 = load i8, ptr @has_arena_key, align 1
  %125 = trunc nuw i8 %124 to i1
  br i1 %125, label %130, label %126
126:
  %127 = call i32 @pthread_key_create(ptr @arena_key, ptr @drop_arena)
  %128 = icmp eq i32 %127, 0
  %129 = zext i1 %128 to i8
  store i8 %129, ptr @has_arena_key, align 1
  br label %130
130:
  %131 = call i32 @pthread_mutex_lock(ptr @pool_lock)
  %132 = load i32, ptr %24, align 8
  %133 = sext i32 %132 to i64
  %134 = load i64, ptr @workers, align 8
  %135 = icmp slt i64 %134, %133
  br i1 %135, label %136, label %156
136:
  %137 = call i32 @sigfillset(ptr %8)
  %138 = call i32 @sigdelset(ptr %8, i32 11)
  %139 = call i32 @sigdelset(ptr %8, i32 7)
  %140 = call i32 @sigdelset(ptr %8, i32 8)
  %141 = call i32 @sigdelset(ptr %8, i32 4)
  %142 = call i32 @pthread_sigmask(i32 2, ptr %8, ptr %9)
  %143 = load i64, ptr @workers, align 8
  %144 = icmp slt i64 %143, %133
  br i1 %144, label %145, label %154
145:
  %146 = call i32 @pthread_create(ptr %10, ptr null, ptr @worker, ptr null)
  %147 = icmp eq i32 %146, 0
  br i1 %147, label %148, label %154
148:
  %149 = load i64, ptr %10, align 8
  %150 = call i32 @pthread_detach(i64 %149)
  %151 = load i64, ptr @workers, align 8
  %152 = add i64 %151, 1
  store atomic i64 %152, ptr @workers monotonic, align 8
  %153 = icmp slt i64 %152, %133
  br i1 %153, label %145, label %154
154:
  %155 = call i32 @pthread_sigmask(i32 2, ptr %9, ptr null)
  br label %156
156:
  %157 = load ptr, ptr @jobs, align 8
  store ptr %157, ptr %23, align 64
  store ptr %13, ptr @jobs, align 8
  %158 = atomicrmw add ptr @tickets, i32 1 monotonic, align 64
  %159 = load i32, ptr @parked, align 4
  %160 = icmp sgt i32 %159, 0
  br i1 %160, label %161, label %170
161:
  %162 = call i32 @pthread_cond_signal(ptr @work)
  %163 = load i32, ptr @parked, align 4
  %164 = icmp sgt i32 %163, 0
  %165 = load i32, ptr %24, align 8
  %166 = icmp sgt i32 %165, 1
  %167 = select i1 %166, i1 %164, i1 false
  br i1 %167, label %168, label %170
168:
  %169 = call i32 @pthread_cond_signal(ptr @work)
  br label %170
170:
  %171 = call i32 @pthread_mutex_unlock(ptr @pool_lock)
  %172 = call i32 @clock_gettime(i32 1, ptr %7)
  %173 = load i64, ptr %7, align 8
  %174 = mul i64 %173, 1000000000
  %175 = load i64, ptr %34, align 8
  %176 = add i64 %174, %175
  br label %177
177:
  %178 = phi i64 [ %176, %170 ], [ %74, %112 ]
  %179 = load ptr, ptr %35, align 8
  %180 = call fastcc i64 @work_on(ptr %13, ptr %179, i1 zeroext false)
  %181 = load ptr, ptr %32, align 8
  %182 = call i32 @clock_gettime(i32 1, ptr %6)
  %183 = load i64, ptr %6, align 8
  %184 = load i64, ptr %36, align 8
  %185 = icmp ne ptr %181, null
  %186 = icmp ne i64 %180, 0
  %187 = and i1 %186, %185
  br i1 %187, label %188, label %208
188:
  %189 = mul i64 %183, 1000000000
  %190 = sub i64 %184, %178
  %191 = add i64 %190, %189
  %192 = mul i64 %191, 1000
  %193 = udiv i64 %192, %180
  %194 = call i64 @llvm.umax.i64(i64 %193, i64 1)
  %195 = load atomic i64, ptr %181 monotonic, align 8
  %196 = icmp ult i64 %194, %195
  br i1 %196, label %197, label %201
197:
  %198 = sub nuw i64 %195, %194
  %199 = lshr i64 %198, 2
  %200 = sub i64 %195, %199
  br label %206
201:
  %202 = icmp eq i64 %195, 0
  br i1 %202, label %206, label %203
203:
  %204 = shl i64 %195, 2
  %205 = call i64 @llvm.umin.i64(i64 %194, i64 %204)
  br label %206
206:
  %207 = phi i64 [ %200, %197 ], [ %205, %203 ], [ %194, %201 ]
  store atomic i64 %207, ptr %181 monotonic, align 8
  br label %208
208:
  %209 = load i64, ptr %25, align 8
  %210 = icmp eq i64 %209, 0
  br i1 %210, label %255, label %211
211:
  %212 = call i32 @pthread_mutex_lock(ptr @pool_lock)
  br label %213
213:
  %214 = phi ptr [ @jobs, %211 ], [ %217, %213 ]
  %215 = load ptr, ptr %214, align 8
  %216 = icmp eq ptr %215, %13
  %217 = getelementptr inbounds nuw i8, ptr %215, i64 128
  br i1 %216, label %218, label %213
218:
  %219 = load ptr, ptr %23, align 64
  store ptr %219, ptr %214, align 8
  %220 = load i32, ptr %26, align 4
  %221 = icmp eq i32 %220, 0
  br i1 %221, label %253, label %222
222:
  %223 = call i32 @pthread_mutex_unlock(ptr @pool_lock)
  %224 = call i32 @clock_gettime(i32 1, ptr %5)
  %225 = load i64, ptr %5, align 8
  %226 = load i64, ptr %37, align 8
  %227 = load atomic i32, ptr %26 monotonic, align 4
  %228 = icmp eq i32 %227, 0
  br i1 %228, label %245, label %229
229:
  %230 = call i32 @clock_gettime(i32 1, ptr %4)
  %231 = load i64, ptr %4, align 8
  %232 = load i64, ptr %38, align 8
  %233 = sub i64 %231, %225
  %234 = mul i64 %233, 1000000000
  %235 = sub i64 %232, %226
  %236 = add i64 %235, %234
  %237 = icmp slt i64 %236, 10000
  br i1 %237, label %238, label %239
238:
  call void @llvm.x86.sse2.pause()
  br label %242
239:
  %240 = call i32 @sched_yield()
  %241 = icmp ugt i64 %236, 400000
  br i1 %241, label %245, label %242
242:
  %243 = load atomic i32, ptr %26 monotonic, align 4
  %244 = icmp eq i32 %243, 0
  br i1 %244, label %245, label %229
245:
  %246 = call i32 @pthread_mutex_lock(ptr @pool_lock)
  store i8 1, ptr %27, align 16
  %247 = load i32, ptr %26, align 4
  %248 = icmp eq i32 %247, 0
  br i1 %248, label %253, label %249
249:
  %250 = call i32 @pthread_cond_wait(ptr @done, ptr @pool_lock)
  %251 = load i32, ptr %26, align 4
  %252 = icmp eq i32 %251, 0
  br i1 %252, label %253, label %249
253:
  %254 = call i32 @pthread_mutex_unlock(ptr @pool_lock)
  br label %255
255:
  %256 = add i64 %47, %41
  %257 = load i64, ptr %15, align 8
  %258 = icmp slt i64 %256, %257
  br i1 %258, label %39, label %259
259:
  ret void
}
declare i32 @clock_gettime(i32, ptr)
declare i64 @pthread_self()
define internal void @team_member(ptr %0) nounwind {
  %2 = getelementptr inbounds nuw i8, ptr %0, i64 140
  %3 = atomicrmw add ptr %2, i32 1 monotonic, align 4
  %4 = and i32 %3, 1
  %5 = icmp ne i32 %4, 0
  %6 = getelementptr inbounds nuw i8, ptr %0, i64 32
  %7 = load ptr, ptr %6, align 8
  %8 = getelementptr inbounds nuw i8, ptr %0, i64 24
  %9 = load i64, ptr %8, align 8
  %10 = icmp eq i64 %9, 0
  br i1 %10, label %45, label %11
11:
  %12 = tail call i64 @pthread_self()
  %13 = getelementptr inbounds nuw i8, ptr %0, i64 104
  %14 = load i64, ptr %13, align 8
  %15 = icmp eq i64 %12, %14
  br i1 %15, label %45, label %16
16:
  %17 = load i8, ptr @has_arena_key, align 1
  %18 = trunc nuw i8 %17 to i1
  br i1 %18, label %19, label %48
19:
  %20 = load i32, ptr @arena_key, align 4
  %21 = tail call ptr @pthread_getspecific(i32 %20)
  %22 = icmp eq ptr %21, null
  br i1 %22, label %23, label %29
23:
  %24 = tail call ptr @calloc(i64 1, i64 24)
  %25 = icmp eq ptr %24, null
  br i1 %25, label %48, label %26
26:
  %27 = load i32, ptr @arena_key, align 4
  %28 = tail call i32 @pthread_setspecific(i32 %27, ptr %24)
  br label %29
29:
  %30 = phi ptr [ %24, %26 ], [ %21, %19 ]
  %31 = load i64, ptr %8, align 8
  %32 = getelementptr inbounds nuw i8, ptr %30, i64 8
  %33 = load i64, ptr %32, align 8
  %34 = icmp slt i64 %33, %31
  br i1 %34, label %35, label %43
35:
  %36 = add i64 %31, 4095
  %37 = and i64 %36, -4096
  %38 = load ptr, ptr %30, align 8
  tail call void @free(ptr %38)
  tail call void @llvm.memset.p0.i64(ptr align 8 %30, i8 0, i64 24, i1 false)
  %39 = tail call i32 @posix_memalign(ptr %30, i64 64, i64 %37)
  %40 = icmp eq i32 %39, 0
  br i1 %40, label %41, label %42
41:
  store i64 %37, ptr %32, align 8
  br label %43
42:
  store ptr null, ptr %30, align 8
  br label %48
43:
  %44 = load ptr, ptr %30, align 8
  tail call void @llvm.memset.p0.i64(ptr align 1 %44, i8 0, i64 64, i1 false)
  br label %45
45:
  %46 = phi ptr [ %7, %11 ], [ %44, %43 ], [ %7, %1 ]
  %47 = tail call fastcc i64 @work_on(ptr %0, ptr %46, i1 zeroext %5)
  br label %48
48:
  ret void
}
define internal fastcc i64 @work_on(ptr %0, ptr %1, i1 zeroext %2) nounwind {
  %4 = alloca %struct.timespec, align 8
  %5 = alloca %struct.timespec, align 8
  %6 = tail call i64 @pthread_self()
  %7 = load i64, ptr @main_thread, align 8
  %8 = icmp eq i64 %6, %7
  %9 = getelementptr inbounds nuw i8, ptr %0, i64 80
  %10 = load i64, ptr %9, align 16
  %11 = call i32 @clock_gettime(i32 1, ptr %5)
  %12 = load i64, ptr %5, align 8
  %13 = getelementptr inbounds nuw i8, ptr %5, i64 8
  %14 = load i64, ptr %13, align 8
  %15 = getelementptr inbounds nuw i8, ptr %0, i64 48
  %16 = load ptr, ptr %15, align 16
  %17 = load atomic i32, ptr %16 monotonic, align 4
  %18 = icmp eq i32 %17, 0
  br i1 %18, label %19, label %95
19:
  %20 = mul i64 %12, 1000000000
  %21 = add i64 %20, %14
  %22 = getelementptr inbounds nuw i8, ptr %0, i64 192
  %23 = getelementptr inbounds nuw i8, ptr %0, i64 64
  %24 = getelementptr inbounds nuw i8, ptr %0, i64 72
  %25 = getelementptr inbounds nuw i8, ptr %0, i64 96
  %26 = getelementptr inbounds nuw i8, ptr %0, i64 8
  %27 = getelementptr inbounds nuw i8, ptr %4, i64 8
  br label %28
28:
  %29 = phi i64 [ %10, %19 ], [ %80, %90 ]
  %30 = phi i64 [ 0, %19 ], [ %63, %90 ]
  %31 = phi i64 [ %21, %19 ], [ %68, %90 ]
  %32 = phi i64 [ %21, %19 ], [ %91, %90 ]
  %33 = load atomic i64, ptr %22 monotonic, align 64
  br label %34
34:
  %35 = phi i64 [ %33, %28 ], [ %52, %39 ]
  %36 = and i64 %35, 4294967295
  %37 = lshr i64 %35, 32
  %38 = icmp eq i64 %36, %37
  br i1 %38, label %95, label %39
39:
  %40 = sub nsw i64 %37, %36
  %41 = load i64, ptr %24, align 8
  %42 = udiv i64 %40, %41
  %43 = load i64, ptr %23, align 64
  %44 = call i64 @llvm.umax.i64(i64 %42, i64 %43)
  %45 = call i64 @llvm.umin.i64(i64 %44, i64 %29)
  %46 = call i64 @llvm.umin.i64(i64 %45, i64 %40)
  %47 = mul i64 %46, -4294967296
  %48 = select i1 %2, i64 %47, i64 %46
  %49 = add i64 %48, %35
  %50 = cmpxchg ptr %22, i64 %35, i64 %49 monotonic monotonic, align 64
  %51 = extractvalue { i64, i1 } %50, 1
  %52 = extractvalue { i64, i1 } %50, 0
  br i1 %51, label %53, label %34
53:
  %54 = icmp eq i64 %45, 0
  br i1 %54, label %95, label %55
55:
  %56 = load i64, ptr %25, align 32
  %57 = sub i64 %37, %46
  %58 = select i1 %2, i64 %57, i64 %36
  %59 = add i64 %56, %58
  %60 = add i64 %59, %46
  %61 = load ptr, ptr %0, align 32
  %62 = load ptr, ptr %26, align 8
  call void %61(ptr %62, i64 %59, i64 %60, ptr %1)
  %63 = add i64 %46, %30
  %64 = call i32 @clock_gettime(i32 1, ptr %4)
  %65 = load i64, ptr %4, align 8
  %66 = mul i64 %65, 1000000000
  %67 = load i64, ptr %27, align 8
  %68 = add i64 %66, %67
  %69 = sub i64 %68, %31
  %70 = icmp slt i64 %69, 2500000
  br i1 %70, label %71, label %74
71:
  %72 = shl i64 %46, 2
  %73 = call i64 @llvm.umax.i64(i64 %29, i64 %72)
  br label %79
74:
  %75 = icmp ugt i64 %69, 10000000
  br i1 %75, label %76, label %79
76:
  %77 = lshr i64 %46, 2
  %78 = call i64 @llvm.umax.i64(i64 %77, i64 1)
  br label %79
79:
  %80 = phi i64 [ %73, %71 ], [ %78, %76 ], [ %29, %74 ]
  %81 = sub i64 %68, %32
  %82 = icmp sgt i64 %81, 50000000
  %83 = select i1 %8, i1 %82, i1 false
  br i1 %83, label %84, label %90
84:
  %85 = call i32 @PyGILState_Ensure()
  %86 = call i32 @PyErr_CheckSignals()
  %87 = icmp eq i32 %86, 0
  call void @PyGILState_Release(i32 %85)
  br i1 %87, label %90, label %88
88:
  %89 = load ptr, ptr %15, align 8
  store atomic i32 1, ptr %89 monotonic, align 4
  br label %90
90:
  %91 = phi i64 [ %32, %79 ], [ %68, %88 ], [ %68, %84 ]
  %92 = load ptr, ptr %15, align 16
  %93 = load atomic i32, ptr %92 monotonic, align 4
  %94 = icmp eq i32 %93, 0
  br i1 %94, label %28, label %95
95:
  %96 = phi i64 [ %30, %34 ], [ 0, %3 ], [ %30, %53 ], [ %63, %90 ]
  ret i64 %96
}
declare i32 @pthread_mutex_lock(ptr)
declare i32 @sigfillset(ptr)
declare i32 @sigdelset(ptr, i32)
declare i32 @pthread_sigmask(i32, ptr, ptr)
declare i32 @pthread_create(ptr, ptr, ptr, ptr)
define internal ptr @worker(ptr %0) nounwind {
  %2 = alloca %struct.timespec, align 8
  %3 = alloca %struct.timespec, align 8
  %4 = alloca %struct.arena, align 8
  call void @llvm.memset.p0.i64(ptr align 8 %4, i8 0, i64 24, i1 false)
  %5 = tail call i32 @pthread_mutex_lock(ptr @pool_lock)
  %6 = getelementptr inbounds nuw i8, ptr %4, i64 8
  %7 = getelementptr inbounds nuw i8, ptr %3, i64 8
  %8 = getelementptr inbounds nuw i8, ptr %2, i64 8
  br label %9
9:
  %10 = phi i1 [ true, %1 ], [ %92, %91 ]
  %11 = load ptr, ptr @jobs, align 8
  %12 = icmp eq ptr %11, null
  br i1 %12, label %93, label %13
13:
  %14 = phi ptr [ %28, %26 ], [ %11, %9 ]
  %15 = getelementptr inbounds nuw i8, ptr %14, i64 192
  %16 = load atomic i64, ptr %15 monotonic, align 64
  %17 = and i64 %16, 4294967295
  %18 = lshr i64 %16, 32
  %19 = icmp ult i64 %17, %18
  br i1 %19, label %20, label %26
20:
  %21 = getelementptr inbounds nuw i8, ptr %14, i64 140
  %22 = load i32, ptr %21, align 4
  %23 = getelementptr inbounds nuw i8, ptr %14, i64 136
  %24 = load i32, ptr %23, align 8
  %25 = icmp slt i32 %22, %24
  br i1 %25, label %30, label %26
26:
  %27 = getelementptr inbounds nuw i8, ptr %14, i64 128
  %28 = load ptr, ptr %27, align 8
  %29 = icmp eq ptr %28, null
  br i1 %29, label %93, label %13
30:
  %31 = getelementptr inbounds nuw i8, ptr %14, i64 140
  %32 = getelementptr inbounds nuw i8, ptr %14, i64 136
  %33 = getelementptr inbounds nuw i8, ptr %14, i64 24
  %34 = load i64, ptr %33, align 8
  %35 = add nsw i32 %22, 1
  store atomic i32 %35, ptr %31 monotonic, align 4
  br label %36
36:
  %37 = phi ptr [ %51, %49 ], [ %11, %30 ]
  %38 = getelementptr inbounds nuw i8, ptr %37, i64 192
  %39 = load atomic i64, ptr %38 monotonic, align 64
  %40 = and i64 %39, 4294967295
  %41 = lshr i64 %39, 32
  %42 = icmp ult i64 %40, %41
  br i1 %42, label %43, label %49
43:
  %44 = getelementptr inbounds nuw i8, ptr %37, i64 140
  %45 = load i32, ptr %44, align 4
  %46 = getelementptr inbounds nuw i8, ptr %37, i64 136
  %47 = load i32, ptr %46, align 8
  %48 = icmp slt i32 %45, %47
  br i1 %48, label %53, label %49
49:
  %50 = getelementptr inbounds nuw i8, ptr %37, i64 128
  %51 = load ptr, ptr %50, align 8
  %52 = icmp eq ptr %51, null
  br i1 %52, label %58, label %36
53:
  %54 = load i32, ptr @parked, align 4
  %55 = icmp sgt i32 %54, 0
  br i1 %55, label %56, label %58
56:
  %57 = call i32 @pthread_cond_signal(ptr @work)
  br label %58
58:
  %59 = call i32 @pthread_mutex_unlock(ptr @pool_lock)
  %60 = icmp eq i64 %34, 0
  br i1 %60, label %75, label %61
61:
  %62 = load i64, ptr %6, align 8
  %63 = icmp slt i64 %62, %34
  br i1 %63, label %64, label %71
64:
  %65 = add i64 %34, 4095
  %66 = and i64 %65, -4096
  %67 = load ptr, ptr %4, align 8
  call void @free(ptr %67)
  call void @llvm.memset.p0.i64(ptr align 8 %4, i8 0, i64 24, i1 false)
  %68 = call i32 @posix_memalign(ptr %4, i64 64, i64 %66)
  %69 = icmp eq i32 %68, 0
  br i1 %69, label %70, label %73
70:
  store i64 %66, ptr %6, align 8
  br label %71
71:
  %72 = load ptr, ptr %4, align 8
  call void @llvm.memset.p0.i64(ptr align 1 %72, i8 0, i64 64, i1 false)
  br label %75
73:
  store ptr null, ptr %4, align 8
  %74 = call i32 @pthread_mutex_lock(ptr @pool_lock)
  store i32 0, ptr %32, align 8
  br label %81
75:
  %76 = phi ptr [ null, %58 ], [ %72, %71 ]
  %77 = and i32 %22, 1
  %78 = icmp eq i32 %77, 0
  %79 = call fastcc i64 @work_on(ptr %14, ptr %76, i1 zeroext %78)
  %80 = call i32 @pthread_mutex_lock(ptr @pool_lock)
  br label %81
81:
  %82 = load i32, ptr %31, align 4
  %83 = icmp eq i32 %82, 1
  %84 = getelementptr inbounds nuw i8, ptr %14, i64 144
  %85 = load i8, ptr %84, align 16
  %86 = trunc nuw i8 %85 to i1
  %87 = add i32 %82, -1
  store atomic i32 %87, ptr %31 monotonic, align 4
  %88 = select i1 %83, i1 %86, i1 false
  br i1 %88, label %89, label %91
89:
  %90 = call i32 @pthread_cond_broadcast(ptr @done)
  br label %91
91:
  %92 = phi i1 [ %120, %118 ], [ true, %122 ], [ false, %81 ], [ false, %89 ]
  br label %9
93:
  br i1 %10, label %122, label %94
94:
  %95 = load atomic i32, ptr @tickets monotonic, align 64
  %96 = call i32 @pthread_mutex_unlock(ptr @pool_lock)
  %97 = call i32 @clock_gettime(i32 1, ptr %3)
  %98 = load i64, ptr %3, align 8
  %99 = load i64, ptr %7, align 8
  %100 = load atomic i32, ptr @tickets monotonic, align 64
  %101 = icmp eq i32 %100, %95
  br i1 %101, label %102, label %118
102:
  %103 = call i32 @clock_gettime(i32 1, ptr %2)
  %104 = load i64, ptr %2, align 8
  %105 = load i64, ptr %8, align 8
  %106 = sub i64 %104, %98
  %107 = mul i64 %106, 1000000000
  %108 = sub i64 %105, %99
  %109 = add i64 %108, %107
  %110 = icmp slt i64 %109, 10000
  br i1 %110, label %111, label %112
111:
  call void @llvm.x86.sse2.pause()
  br label %115
112:
  %113 = call i32 @sched_yield()
  %114 = icmp ugt i64 %109, 400000
  br i1 %114, label %118, label %115
115:
  %116 = load atomic i32, ptr @tickets monotonic, align 64
  %117 = icmp eq i32 %116, %95
  br i1 %117, label %102, label %118
118:
  %119 = load atomic i32, ptr @tickets monotonic, align 64
  %120 = icmp eq i32 %119, %95
  %121 = call i32 @pthread_mutex_lock(ptr @pool_lock)
  br label %91
122:
  %123 = load i32, ptr @parked, align 4
  %124 = add i32 %123, 1
  store atomic i32 %124, ptr @parked monotonic, align 4
  %125 = call i32 @pthread_cond_wait(ptr @work, ptr @pool_lock)
  %126 = load i32, ptr @parked, align 4
  %127 = add i32 %126, -1
  store atomic i32 %127, ptr @parked monotonic, align 4
  br label %91
}
declare i32 @pthread_detach(i64)
declare i32 @pthread_cond_wait(ptr, ptr)
declare i32 @pthread_cond_broadcast(ptr)
declare i32 @sched_yield()
declare void @llvm.x86.sse2.pause()
declare i32 @pthread_cond_signal(ptr)
declare i32 @pthread_mutex_unlock(ptr)
declare i32 @PyGILState_Ensure()
declare i32 @PyErr_CheckSignals()
declare void @PyGILState_Release(i32)
declare i32 @posix_memalign(ptr, i64, i64)
declare i32 @pthread_key_create(ptr, ptr)
define internal void @drop_arena(ptr %0) nounwind {
  %2 = load ptr, ptr %0, align 8
  tail call void @free(ptr %2)
  tail call void @free(ptr %0)
  ret void
}
declare ptr @pthread_getspecific(i32)
declare ptr @calloc(i64, i64)
declare i32 @pthread_setspecific(i32, ptr)
declare i64 @llvm.smax.i64(i64, i64)
declare i64 @llvm.umax.i64(i64, i64)
declare i64 @llvm.umin.i64(i64, i64)
