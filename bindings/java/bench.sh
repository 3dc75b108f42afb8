#!/bin/sh
set -eu
. ./env.sh
$run Bench
$run OwnBench
