# steps.png: the time of a step in bf16 over the peak memory of the process, from two files of steps.py; run in their folder.
# ResNet-18's least has been its compact since its row was measured.
set datafile separator ","
set terminal pngcairo noenhanced size 1400,560 font ",12"
set output "steps.png"
set multiplot layout 1,2
set grid
set xlabel "peak resident memory of the process, MiB"
set ylabel "one step, ms"
set logscale x 2
set yrange [0:*]
set offsets graph 0.1, graph 0.12, graph 0.05, 0
set key bottom left
name(row) = word(row, words(row)) eq "bf16" ? word(row, 1) eq "torch" ? "PyTorch" : word(row, 1) : word(row, 3)
do for [arch in "resmlp_s12 resnet18"] {
    file = "< awk -F, '$6 > 0 && $1 ~ /bf16/ && $1 !~ /pooled" . (arch eq "resnet18" ? "|least" : "") . "/' " . arch . ".csv | grep "
    set title arch . ", 224 px, batch 32, bf16"
    plot file . "-v ^torch" using 6:2 with points pointtype 7 pointsize 1.6 linecolor rgb "#0060ad" title "clprune", \
         file . "^torch" using 6:2 with points pointtype 9 pointsize 1.8 linecolor rgb "#c04000" title "PyTorch", \
         file . "." using 6:2:(name(strcol(1))) with labels offset 0,0.9 notitle
}
unset multiplot
