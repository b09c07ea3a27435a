(println "before")
(throw (ex-info "on purpose" {}))
