(display "before\n")
(error "on purpose")
