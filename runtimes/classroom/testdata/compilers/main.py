"""Calls each compiler and interpreter, as a grader does."""

import subprocess

programs = {
    "main.c": ("#include <stdio.h>\nint main(void) { puts(\"C\"); }\n", "gcc -o /tmp/c main.c && /tmp/c"),
    "main.cpp": ("#include <iostream>\nint main() { std::cout << \"C++\\n\"; }\n", "g++ -o /tmp/cpp main.cpp && /tmp/cpp"),
    "Main.java": ("class Main { public static void main(String[] a) { System.out.println(\"Java\"); } }\n",
                  "javac -d /tmp -J-XX:TieredStopAtLevel=1 Main.java && java -Xshare:auto -XX:TieredStopAtLevel=1 -cp /tmp Main"),
    "main.js": ("console.log('JavaScript')\n", "node main.js"),
    "main.php": ("<?php echo \"PHP\\n\";\n", "php main.php"),
    "main.sql": ("SELECT 'SQL';\n", "sqlite3 :memory: <main.sql"),
    "main.rb": ("puts 'Ruby'\n", "ruby main.rb"),
    "main.pl": ("print \"Perl\\n\"\n", "perl main.pl"),
    "main.sh": ("echo '{\"a\": \"Bash\"}' | jq -r .a\n", "bash main.sh"),
}
for name, (source, command) in programs.items():
    with open(name, "w", encoding="utf-8") as f:
        f.write(source)
    done = subprocess.run(command, shell=True, capture_output=True, text=True, check=False)
    print(done.stdout + done.stderr, end="")
    subprocess.run(["rm", name], check=True)
