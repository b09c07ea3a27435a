<?php
echo "hello, wörld\n";
