print("before")
raise ValueError("on purpose")
