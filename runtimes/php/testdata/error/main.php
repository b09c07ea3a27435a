<?php
echo "before\n";
throw new RuntimeException("on purpose");
