section .data
before: db "before", 10
why: db "on purpose", 10

section .text
global _start
_start:
    mov eax, 1
    mov edi, 1
    lea rsi, [rel before]
    mov edx, 7
    syscall
    mov eax, 1
    mov edi, 2
    lea rsi, [rel why]
    mov edx, 11
    syscall
    ud2
