; Copies standard input to standard output, and returns the number of its arguments.
section .bss
buffer: resb 4096

section .text
global _start
_start:
    mov rbx, [rsp]
.more:
    xor eax, eax
    xor edi, edi
    lea rsi, [rel buffer]
    mov edx, 4096
    syscall
    test eax, eax
    jle .end
    mov edx, eax
    mov eax, 1
    mov edi, 1
    lea rsi, [rel buffer]
    syscall
    jmp .more
.end:
    lea rdi, [rbx - 1]
    mov eax, 60
    syscall
