#!/bin/sh
# Stands in the place of gradle: starts the real one with a script that reports its tests.
folder=${0%/*}
folder=${folder%/*}
PATH=${PATH#"$folder/bin:"}
export PATH

for word in "$@"; do
    case $word in --version | -v | --help | -h | -\?) exec gradle "$@" ;; esac
done
# A remembered configuration would leave the script out.
exec gradle --init-script "$folder/reporter.gradle" -Dorg.gradle.configuration-cache=false \
    -Dorg.gradle.unsafe.configuration-cache=false "$@"
