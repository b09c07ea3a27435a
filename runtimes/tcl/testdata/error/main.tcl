puts before
error "on purpose"
