#!/bin/sh
set -eu
. ./env.sh
"$luajit" bench.lua
