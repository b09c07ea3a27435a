#include "textflag.h"

#define SYS_clone 56

// func vfork(flags uintptr) (pid uintptr, errno syscall.Errno)
//
// The child returns from here on the same stack, and what it calls writes over the return
// address: the parent keeps its own in a register.
TEXT ·vfork(SB),NOSPLIT|NOFRAME,$0-24
	MOVQ	flags+0(FP), DI
	XORL	SI, SI
	XORL	DX, DX
	XORL	R10, R10
	XORL	R8, R8
	MOVL	$SYS_clone, AX
	POPQ	R12
	SYSCALL
	PUSHQ	R12
	TESTQ	AX, AX
	JLT	failed
	MOVQ	AX, pid+8(FP)
	MOVQ	$0, errno+16(FP)
	RET
failed:
	NEGQ	AX
	MOVQ	$0, pid+8(FP)
	MOVQ	AX, errno+16(FP)
	RET
