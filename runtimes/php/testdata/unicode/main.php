<?php
$line = trim(fgets(STDIN));
echo $line, ' ', mb_strlen($line), "\n";
