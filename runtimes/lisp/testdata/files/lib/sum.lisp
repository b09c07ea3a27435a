(defun sum (in)
  (loop for n = (read in nil) while n sum n))
