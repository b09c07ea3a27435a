print("before", flush=True)
while True:
    pass
