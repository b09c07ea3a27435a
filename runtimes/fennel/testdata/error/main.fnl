(print "before")
(error "on purpose")
