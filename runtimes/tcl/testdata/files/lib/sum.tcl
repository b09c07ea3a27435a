proc sum {values} { ::tcl::mathop::+ {*}$values }
