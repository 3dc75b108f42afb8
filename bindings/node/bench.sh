#!/bin/sh
set -eu
. ./env.sh
node bench.js
