section .bss
buffer: resb 4096

section .text
global _start
_start:
    xor eax, eax
    xor edi, edi
    lea rsi, [rel buffer]
    mov edx, 4096
    syscall
    mov edx, eax
    mov eax, 1
    mov edi, 1
    lea rsi, [rel buffer]
    syscall
    mov eax, 60
    xor edi, edi
    syscall
