# steps.png: the time of a step over the bytes saved for the backward pass, from the files of steps.py; run in their folder.
# PyTorch's fp32 steps are left out.
set datafile separator ","
set terminal pngcairo noenhanced size 2000,1200 font ",11"
set output "steps.png"
set multiplot layout 2,4
set key bottom left
label(name) = words(name) == 3 ? word(name, 3) : word(name, 1)
set grid
set xlabel "saved for the backward pass, MiB"
set ylabel "one step, ms"
set logscale x 2
set yrange [0:*]
set offsets graph 0.08, graph 0.1, 0, 0
do for [arch in "resmlp_s12 resnet18 mixer_s16 resnet50 vgg11 deit_small gpt_nano"] {
    file = "< grep -v '^#' " . arch . ".csv | grep -E '"
    ours = system("grep -q 'dense fp32' " . arch . ".csv && echo fp32 bf16 || echo bf16")
    set title arch . (arch eq "gpt_nano" ? ", 256 bytes, batch 16" : ", 224 px, batch 32")
    plot for [p in ours] file . " " . p . "' | grep -v ^torch" using 4:2 with points pointtype (p eq "fp32" ? 6 : 7) \
             pointsize 1.6 linecolor rgb "#0060ad" title "clprune, " . p, \
         file . "torch bf16' | grep -v compiled" using 4:2 with points pointtype 9 pointsize 1.8 \
             linecolor rgb "#c04000" title "PyTorch, bf16", \
         file . " (fp32|bf16)' | grep -v 'compiled\\|torch fp32'" using 4:2:(label(strcol(1))) with labels \
             offset 0,0.9 font ",9" notitle
}
unset multiplot
