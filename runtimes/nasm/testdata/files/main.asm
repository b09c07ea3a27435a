%include "lib/exit.inc"

section .data
in: db "data/in.txt", 0
out: db "out.txt", 0

section .bss
buffer: resb 4096

section .text
global _start
_start:
    mov eax, 2              ; open
    lea rdi, [rel in]
    xor esi, esi
    syscall
    mov edi, eax
    xor eax, eax            ; read
    lea rsi, [rel buffer]
    mov edx, 4096
    syscall
    mov ebx, eax
    mov eax, 2              ; open, to write
    lea rdi, [rel out]
    mov esi, 0o1101
    mov edx, 0o644
    syscall
    mov edi, eax
    mov eax, 1              ; write
    lea rsi, [rel buffer]
    mov edx, ebx
    syscall
    exit 0
