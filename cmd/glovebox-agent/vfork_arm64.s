#include "textflag.h"

#define SYS_clone 220

// func vfork(flags uintptr) (pid uintptr, errno syscall.Errno)
//
// The child returns from here on the same stack; the return address is in a register.
TEXT ·vfork(SB),NOSPLIT,$0-24
	MOVD	flags+0(FP), R0
	MOVD	$0, R1
	MOVD	$0, R2
	MOVD	$0, R3
	MOVD	$0, R4
	MOVD	$SYS_clone, R8
	SVC
	CMP	$0, R0
	BLT	failed
	MOVD	R0, pid+8(FP)
	MOVD	ZR, errno+16(FP)
	RET
failed:
	NEG	R0, R0
	MOVD	ZR, pid+8(FP)
	MOVD	R0, errno+16(FP)
	RET
