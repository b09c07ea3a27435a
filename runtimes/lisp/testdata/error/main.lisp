(format t "before~%")
(error "on purpose")
