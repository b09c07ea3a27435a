# One answer is asked for.
n = int(input())


def prime(n):
    return n > 1 and all(n % i for i in range(2, int(n**0.5) + 1))


for a in range(2, n):
    if prime(a) and prime(n - a):
        print(a, n - a)
        if a > 20:
            break
