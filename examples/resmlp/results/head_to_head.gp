# head-to-head.png: test accuracy and training loss over epochs.  gnuplot -e "runs='dense-1 ...'"
set datafile separator ','
set terminal pngcairo size 1200,460 font 'sans,12'
set output 'head-to-head.png'
set multiplot layout 1,2 title 'resmlp\_tiny on CIFAR-10: forms of activations at about 7 MiB (dense: 85)'
set grid ytics lc rgb '#dddddd'
set xlabel 'epoch'
set xtics 1
set key bottom right
set ylabel 'test top-1 (%)'
plot for [run in runs] run.'/log.csv' using 'epoch':'top1' with linespoints lw 2 pt 7 ps 0.8 title run
set key top right
set ylabel 'training loss'
plot for [run in runs] run.'/log.csv' using 'epoch':'train_loss' with linespoints lw 2 pt 7 ps 0.8 title run
unset multiplot
