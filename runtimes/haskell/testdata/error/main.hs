main :: IO ()
main = putStrLn "before" >> error "on purpose"
