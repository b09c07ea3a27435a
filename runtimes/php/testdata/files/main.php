<?php
require 'lib/sum.php';

$values = file('data/in.txt', FILE_IGNORE_NEW_LINES);
file_put_contents('out.txt', json_encode(['sum' => sum($values)]));
echo sum($values), "\n";
