; tools/build_native.py made this of the C sources with the digest 2caeb3019d96bd4b6cb39558db7479f9
; compiled by ziglang 0.17.0
%struct.row = type { ptr, ptr, i64, i64, i64, ptr, i64, ptr }
define i64 @eas_replay(ptr %0, i64 %1, ptr %2, ptr %3) nounwind {
  %5 = tail call ptr @PyEval_SaveThread()
  %6 = icmp sgt i64 %1, 0
  br i1 %6, label %9, label %7
7:
  %8 = phi i64 [ 0, %4 ], [ %43, %33 ]
  tail call void @PyEval_RestoreThread(ptr %5)
  ret i64 %8
9:
  %10 = phi i64 [ %44, %33 ], [ 0, %4 ]
  %11 = getelementptr inbounds nuw %struct.row, ptr %0, i64 %10
  %12 = getelementptr inbounds nuw i8, ptr %11, i64 56
  %13 = load ptr, ptr %12, align 8
  store i32 0, ptr %13, align 4
  %14 = getelementptr inbounds nuw i8, ptr %11, i64 16
  %15 = load i64, ptr %14, align 8
  %16 = icmp eq i64 %15, 1
  %17 = getelementptr inbounds nuw i8, ptr %11, i64 32
  %18 = load i64, ptr %17, align 8
  %19 = icmp eq i64 %18, 0
  %20 = select i1 %16, i1 %19, i1 false
  %21 = load ptr, ptr %11, align 8
  %22 = getelementptr inbounds nuw i8, ptr %11, i64 8
  %23 = load ptr, ptr %22, align 8
  br i1 %20, label %24, label %25
24:
  tail call void %21(ptr %23, i64 0, i64 1, ptr null)
  br label %33
25:
  %26 = getelementptr inbounds nuw i8, ptr %11, i64 24
  %27 = load i64, ptr %26, align 8
  %28 = getelementptr inbounds nuw i8, ptr %11, i64 40
  %29 = load ptr, ptr %28, align 8
  %30 = getelementptr inbounds nuw i8, ptr %11, i64 48
  %31 = load i64, ptr %30, align 8
  %32 = tail call i32 %2(ptr %21, ptr %23, i64 %15, i64 0, i64 %27, i64 %18, ptr %29, ptr %3, i64 %31)
  br label %33
33:
  %34 = phi i32 [ 0, %24 ], [ %32, %25 ]
  %35 = load ptr, ptr %12, align 8
  %36 = load i32, ptr %35, align 4
  %37 = icmp eq i32 %36, 0
  %38 = select i1 %37, i32 %34, i32 255
  %39 = icmp eq i32 %38, 0
  %40 = shl i64 %10, 8
  %41 = sext i32 %38 to i64
  %42 = add i64 %40, %41
  %43 = select i1 %39, i64 0, i64 %42
  %44 = add nuw nsw i64 %10, 1
  %45 = icmp slt i64 %44, %1
  %46 = icmp eq i64 %43, 0
  %47 = select i1 %45, i1 %46, i1 false
  br i1 %47, label %9, label %7
}
declare ptr @PyEval_SaveThread()
declare void @PyEval_RestoreThread(ptr)
