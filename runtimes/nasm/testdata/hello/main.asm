section .data
text: db "hello, wörld", 10
size: equ $ - text

section .text
global _start
_start:
    mov eax, 1
    mov edi, 1
    lea rsi, [rel text]
    mov edx, size
    syscall
    mov eax, 60
    xor edi, edi
    syscall
