println "before"
throw new IllegalStateException("on purpose")
