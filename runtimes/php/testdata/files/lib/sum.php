<?php
function sum(array $values): int
{
    return array_sum(array_map('intval', $values));
}
