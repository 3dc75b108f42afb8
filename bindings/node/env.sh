# Sourced by test.sh and bench.sh: the package in a copy of this tree, with
# what it depends on; the shell goes there.
. ../lib.sh
need 'no Node of version 18.17 or later: apt-get install nodejs' \
	node -e 'process.exit(AbortSignal.any ? 0 : 1)'
need 'no npm: apt-get install npm' npm --version
mkdir -p "$SCRATCH/tree"
cp -r . "$SCRATCH/tree"
cd "$SCRATCH/tree"
need 'npm cannot install koffi: set the registry, as in npm_config_registry' \
	npm install --no-audit --no-fund
