    mov undeclared
