(let ((line (read-line)))
  (format t "~a ~a~%" line (length line)))
